"""The items of a part: each is a process of its own, so a crash or a hang costs that item only."""
import concurrent.futures
import pathlib
import re

import running

TAIL_LINES = 25
LOOK_SECONDS = 0.5
# Less than this is not worth a start: libtorch for CUDA takes a second or two to load.
LEAST_SECONDS = 2


def judge_by_exit_code(outcome):
    """(passed, text) of an outcome."""
    return outcome.passed, outcome.summary()


class Item:
    """`limit`: seconds that it may take by itself. `slow`: a program that merely takes long, such as a sanitizer: over
    its limit it is not finished, which is no failure. `judge`: (passed, text) of a program that ended.
    """

    def __init__(self, name, words, limit, env=None, slow=False, judge=judge_by_exit_code):
        self.name, self.words, self.limit, self.env = name, words, limit, env
        self.slow, self.judge = slow, judge

    def log(self, folder):
        return folder / (re.sub(r'[^A-Za-z0-9_.-]+', '-', self.name) + '.log')


def entry(name, passed, seconds, result, log=None, text=''):
    """What is written of an item. `passed` None: it did not run, did not finish or could
    not see what it is for; `result` says why."""
    found = {'name': name, 'passed': passed, 'seconds': round(seconds, 1), 'result': result,
             'log': pathlib.Path(log).name if log else None}
    if passed is not True and text:
        found['tail'] = text.splitlines()[-TAIL_LINES:]
    return found


def left_out(name, reason):
    return entry(name, None, 0, reason)


def time_ran_out(clock):
    return f'the {clock.limit:.0f} s of this part are over (--limit)'


def run_item(item, clock, folder, on_line=None):
    """Runs it if there is time left. (entry, text that the program printed)."""
    if running.ended_by():
        return left_out(item.name, f'gpu-check was ended by {running.ended_by()}'), ''
    if clock.left() < LEAST_SECONDS:
        return left_out(item.name, time_ran_out(clock)), ''
    limit = min(item.limit, clock.left())
    outcome = running.run(item.words, item.log(folder), limit, item.env, on_line)
    if running.ended_by() and outcome.status != 0:
        passed, text = None, f'not finished: gpu-check was ended by {running.ended_by()}'
    elif outcome.status is not None:
        passed, text = item.judge(outcome)
    elif limit < item.limit:
        passed, text = None, f'not finished after {outcome.seconds:.0f} s: {time_ran_out(clock)}'
    elif item.slow:
        passed, text = None, f'not finished in its {limit:.0f} s'
    else:
        passed, text = False, f'stopped after {limit:.0f} s: it hangs or is too slow (--test-limit)'
    return entry(item.name, passed, outcome.seconds, text, outcome.log, outcome.text), outcome.text


def run_items(items, jobs, clock, folder):
    """Yields (entry, text) as items end; up to `jobs` at a time, begun in their order."""
    with concurrent.futures.ThreadPoolExecutor(max(1, jobs)) as pool:
        started = waiting = [pool.submit(run_item, item, clock, folder) for item in items]
        while waiting:
            # Python handles a signal that comes just as a wait begins only when it ends.
            ended, waiting = concurrent.futures.wait(waiting, LOOK_SECONDS, concurrent.futures.FIRST_COMPLETED)
            for future in started:
                if future in ended:
                    yield future.result()
