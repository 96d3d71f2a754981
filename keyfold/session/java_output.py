"""Collect the output of the Java process of Spark, and explain why it ended."""

import os
import threading
import uuid
from collections.abc import Sequence


class JavaOutput:
    """Collects what Java prints until it runs, then passes later lines on to stderr."""

    def __init__(self) -> None:
        read, self.pipe = os.pipe()
        self._lines: list[str] | None = []
        self._lock = threading.Lock()
        self._end, self._end_seen = f"keyfold-{uuid.uuid4().hex}", threading.Event()
        self._thread = threading.Thread(target=self._read, args=(read,), name="spark-stderr", daemon=True)
        self._thread.start()

    def until_the_end(self) -> list[str]:
        """Return all lines of a process that has ended."""
        os.close(self.pipe)
        self._thread.join(timeout=10)
        return self._lines or []

    def forget(self) -> None:
        """Drop the lines so far: the process runs."""
        with self._lock:
            self._lines = []

    def pass_on(self) -> list[str]:
        """Return the lines so far. Later ones go to this process's stderr."""
        # Java's output so far is in the pipe, but perhaps not read yet: wait for a marker written after it.
        os.write(self.pipe, f"{self._end}\n".encode())
        os.close(self.pipe)
        self._end_seen.wait(timeout=10)
        with self._lock:
            lines, self._lines = self._lines or [], None
        return lines

    def _read(self, read: int) -> None:
        with open(read, encoding="utf-8", errors="replace") as stream:
            for said in stream:
                # The marker of `pass_on` may follow other text on its line.
                line = said
                if self._end in line:
                    line = line.replace(f"{self._end}\n", "")
                with self._lock:
                    if self._lines is not None:
                        if line:
                            self._lines.append(line.rstrip())
                        if line is not said:
                            self._end_seen.set()
                        continue
                os.write(2, line.encode())


def explained(lines: Sequence[str]) -> str:
    """Return an error message for the output of a Java process that ended before it was ready."""
    printed = [line for line in lines if line.strip() and not line.startswith("\tat ")]
    last = "\n".join(printed[-15:]) or "(none)"
    return f"Spark's Java process ended before it was ready. Its last output:\n{last}"
