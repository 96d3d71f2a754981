"""What the Java process of Spark prints: kept while it starts, to explain a failure, and shown afterwards."""

import os
import threading


class JavaOutput:
    """Keeps the lines that Java prints until `show` is called; later ones go to this process's stderr.

    Give Java the pipe for stdout too: it prints some errors there, and a program may read our stdout.
    """

    def __init__(self) -> None:
        read, self.pipe = os.pipe()
        self._lines: list[str] = []
        self._is_shown = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._read, args=(read,), name="spark-output", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Close this process's end of the pipe: Java has its own, and the output ends with it."""
        os.close(self.pipe)

    def forget(self) -> None:
        """Drop the lines so far, such as a report on each package: Java runs."""
        with self._lock:
            self._lines.clear()

    def show(self) -> None:
        """Print the lines so far and all later ones to stderr."""
        with self._lock:
            os.write(2, "".join(self._lines).encode())
            self._is_shown = True

    def explained(self) -> str:
        """Return an error message for a Java process that ended before it was ready."""
        self._thread.join(timeout=10)
        lines = [line.rstrip() for line in self._lines if line.strip() and not line.startswith("\tat ")]
        last = "\n".join(lines[-15:]) or "(none)"
        return f"Spark's Java process ended before it was ready. Its last output:\n{last}"

    def _read(self, read: int) -> None:
        with open(read, encoding="utf-8", errors="replace") as stream:
            for line in stream:
                with self._lock:
                    if self._is_shown:
                        os.write(2, line.encode())
                    else:
                        self._lines.append(line)
