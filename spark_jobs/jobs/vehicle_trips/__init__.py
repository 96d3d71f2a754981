"""Find trips and stops of vehicles: the job, and how points become trips and stops."""
