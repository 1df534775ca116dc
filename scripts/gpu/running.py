"""Runs a program with a time limit and a log file."""
import os
import subprocess
import time


class Outcome:
    def __init__(self, status, seconds, log, text):
        self.status, self.seconds, self.log, self.text = status, seconds, log, text

    @property
    def passed(self):
        return self.status == 0

    def summary(self):
        """The last line that says something, or why there is none."""
        if self.status is None:
            return f'stopped after {self.seconds:.0f} s'
        lines = [line.strip() for line in self.text.splitlines() if line.strip()]
        failed = [line for line in lines if line.startswith('FAIL')]
        return '; '.join(failed[:3]) or (lines[-1] if lines else f'exit code {self.status}')


def run(command, log, limit, env=None):
    """Output goes to the file `log` as it comes. A program over its limit in seconds is stopped: status None."""
    start = time.monotonic()
    # Threads that wait for work must not take it from others: the machine may be small or busy.
    env = {'OMP_WAIT_POLICY': 'passive', **(env or {})}
    with open(log, 'w') as file:
        try:
            status = subprocess.run([str(word) for word in command], stdout=file, stderr=subprocess.STDOUT,
                                    stdin=subprocess.DEVNULL, timeout=limit, env={**os.environ, **env}).returncode
        except subprocess.TimeoutExpired:
            status = None
        except OSError as error:
            file.write(f'{error}\n')
            status = 127
    with open(log, errors='replace') as file:
        return Outcome(status, time.monotonic() - start, str(log), file.read())
