"""`keyfold new`: generate the files of a project, stream or job from templates, for the user to edit."""
