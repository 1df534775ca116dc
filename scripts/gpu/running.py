"""Programs with a time limit, a log file each, and the time that a part of gpu-check has for them."""
import os
import signal
import subprocess
import threading
import time

# What a stopped program has until it is killed.
GRACE_SECONDS = 5


class Clock:
    """The time of one part."""

    def __init__(self, limit):
        self.limit, self.start = limit, time.monotonic()

    def spent(self):
        return time.monotonic() - self.start

    def left(self):
        return max(0.0, self.limit - self.spent())


class Outcome:
    """`status`: exit code, negative for a signal, None for a program that was stopped at its limit."""

    def __init__(self, status, seconds, log, text):
        self.status, self.seconds, self.log, self.text = status, seconds, log, text

    @property
    def passed(self):
        return self.status == 0

    def summary(self):
        """One line: why it failed, else the last line that says something."""
        if self.status is None:
            return f'stopped after {self.seconds:.0f} s'
        lines = [line.strip() for line in self.text.splitlines() if line.strip()]
        failed = '; '.join([line for line in lines if line.startswith('FAIL')][:3])
        if self.status < 0:
            return f'ended by {signal_name(-self.status)}' + (f' after: {failed or lines[-1]}' if lines else '')
        return failed or (lines[-1] if lines else f'exit code {self.status}')


def signal_name(number):
    try:
        return signal.Signals(number).name
    except ValueError:
        return f'signal {number}'


# A signal may come while the thread that handles it starts a program.
_lock = threading.RLock()
_running = set()
_ended_by = None


def ended_by():
    """The signal that asked gpu-check to end, or None; nothing is started after it."""
    return _ended_by


def stop_everything(number, _frame):
    """A signal handler: what runs is stopped, what is there so far can be written down."""
    global _ended_by
    _ended_by = signal_name(number)
    with _lock:
        for process in _running:
            _kill(process, signal.SIGKILL)


def _kill(process, number):
    """The program and what it started: a sanitizer runs the program in a process of its own."""
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        pass


def _wait(process, limit):
    """Its exit code, or None if it had to be stopped."""
    try:
        return process.wait(limit)
    except subprocess.TimeoutExpired:
        pass
    _kill(process, signal.SIGTERM)
    try:
        process.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        pass
    _kill(process, signal.SIGKILL)
    process.wait()
    return None


def _start(command, env):
    # Threads that wait for work must not take it from others: the machine may be small or busy.
    env = {**os.environ, 'OMP_WAIT_POLICY': 'passive', **(env or {})}
    with _lock:
        process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   stdin=subprocess.DEVNULL, env=env, start_new_session=True, text=True,
                                   errors='replace', bufsize=1)
        _running.add(process)
        if _ended_by is not None:
            _kill(process, signal.SIGKILL)
    return process


def run(command, log, limit, env=None, on_line=None):
    """Output goes to the file `log` as it comes, each line also to `on_line`. A program over its limit in seconds is
    stopped: status None.
    """
    start = time.monotonic()
    lines = []
    with open(log, 'w') as file:
        try:
            process = _start(command, env)
        except OSError as error:
            file.write(f'{error}\n')
            return Outcome(127, time.monotonic() - start, str(log), f'{error}\n')

        def read():
            for line in process.stdout:
                file.write(line)
                file.flush()
                lines.append(line)
                if on_line is not None:
                    on_line(line)

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        status = _wait(process, limit)
        # A process that left the group may hold the other end open for ever.
        reader.join(GRACE_SECONDS)
        with _lock:
            _running.discard(process)
    return Outcome(status, time.monotonic() - start, str(log), ''.join(lines))
