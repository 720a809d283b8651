"""A worker process: reads a function once, then tasks, and writes what each gave.

It is started as a program of its own, so it knows nothing of the user's script: what was
defined there cannot be read here, and is told back as such.
"""

from __future__ import annotations

import os
import pickle
import struct
import subprocess
import sys
from contextlib import suppress
from types import TracebackType
from typing import IO, Any, Self

LENGTH = struct.Struct("<Q")
# Ctrl-C on a terminal reaches workers too; who started them ends them.
START = (
    "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); "
    "from mixreg.jobs.worker import serve; serve()"
)
THREADS = (
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


class WorkerDied(RuntimeError):
    """A worker process ended before its work was done."""


class Worker:
    """A process that runs one function on many tasks, one after another."""

    def __init__(self) -> None:
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        environment = {**os.environ, **dict.fromkeys(THREADS, "1"), "PYTHONPATH": path}
        self.process = subprocess.Popen(
            [sys.executable, "-c", START],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._to, self._back = self.process.stdin, self.process.stdout

    def understands(self, payload: bytes) -> bool:
        """Send the function, pickled; whether the process could read it."""
        return bool(self._ask(payload)[0])

    def __call__(self, task: Any) -> Any:
        """What the function gives for a task; its error is raised here."""
        good, value = self._ask(pickle.dumps(task, pickle.HIGHEST_PROTOCOL))
        if not good:
            raise value
        return value

    def _ask(self, message: bytes) -> tuple[bool, Any]:
        try:
            write(self._to, message)
            answer: tuple[bool, Any] = pickle.loads(read(self._back))
        except (EOFError, BrokenPipeError) as error:
            raise WorkerDied(
                "a worker process ended before its work was done, most often for lack of memory; "
                "use a smaller n_jobs, or n_jobs=1 to work in this process"
            ) from error
        return answer

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: Any, trace: TracebackType | None
    ) -> None:
        """End the process, whatever it is doing."""
        self.process.kill()
        self.process.wait()
        self._back.close()
        # What was left to write is not wanted any more.
        with suppress(BrokenPipeError):
            self._to.close()


def write(stream: IO[bytes], message: bytes) -> None:
    """Write a message, its length first."""
    stream.write(LENGTH.pack(len(message)))
    stream.write(message)
    stream.flush()


def read(stream: IO[bytes]) -> bytes:
    """Read a message."""
    (length,) = LENGTH.unpack(_exactly(stream, LENGTH.size))
    return _exactly(stream, length)


def _exactly(stream: IO[bytes], length: int) -> bytes:
    message = stream.read(length)
    if len(message) < length:
        raise EOFError
    return message


def serve() -> None:
    """Be a worker until there is nothing more to read."""
    source, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    # What the work prints must not get between the answers.
    os.dup2(2, 1)
    try:
        function = pickle.loads(read(source))
    except Exception as error:
        _answer(answers, False, RuntimeError(str(error)))
        return
    _answer(answers, True, None)
    while True:
        try:
            message = read(source)
        except EOFError:
            return
        _answer(answers, *_result(function, message))


def _result(function: Any, message: bytes) -> tuple[bool, Any]:
    try:
        return True, function(pickle.loads(message))
    except Exception as error:
        return False, error


def _answer(stream: IO[bytes], good: bool, value: Any) -> None:
    try:
        message = pickle.dumps((good, value), pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        message = pickle.dumps((False, RuntimeError(f"the answer cannot be sent: {error}")))
    write(stream, message)
