"""Commands that are killed, interrupted, run twice at a time or given small disks."""

import signal
import time
import zlib
from random import Random

from forked import Area, Process
from workload import Step, Workload

ENDINGS = {
    signal.SIGTERM: "terminated; run the same command again",
    signal.SIGHUP: "the terminal was closed; run the same command again",
    signal.SIGINT: "interrupted; run the same command again",
}
SMALLEST = 16  # bytes; Python's tempfile looks for a folder in which it can write 4


def killed(area: Area, workload: Workload, random: Random, cases: int) -> None:
    """kill -9 at a random moment: no file is torn, and the same command again leaves what it always leaves."""
    for step in workload.chosen(random, cases):
        after = random.uniform(0, workload.reference(step).seconds * 1.05)
        workload.reset(step)
        Process(step.work).ended(signal.SIGKILL, after=after)
        area.add(f"{step.name} after {after:.3f} s", workload.torn(step) or workload.repeated(step))


def signalled(area: Area, workload: Workload, random: Random, cases: int) -> None:
    """SIGTERM, SIGHUP and SIGINT: one sentence, the shell's exit code, and no temporary file is left at once."""
    for number, step in enumerate(workload.chosen(random, cases)):
        sent = list(ENDINGS)[(number + number // len(workload.steps)) % len(ENDINGS)]
        reference = workload.reference(step)
        after = random.uniform(0.02, reference.seconds)
        workload.reset(step)
        code, stderr, _ = Process(step.work).ended(sent, after=after)
        fault = None
        if code != reference.code and not (code == -sent and workload.finished(step)):  # else it had finished
            if code != 128 + sent or "Traceback" in stderr or ENDINGS[sent] not in stderr.splitlines()[-1]:
                fault = f"exit code {code}: {stderr[-300:]}"
            fault = fault or workload.left()
        case = f"{step.name}, {sent.name} after {after:.3f} s"
        area.add(case, fault or workload.torn(step) or workload.repeated(step))


def together(area: Area, workload: Workload, random: Random, cases: int) -> None:
    """Two processes with the same command: each succeeds or refuses in one sentence, and the output is whole."""
    for step in workload.chosen(random, cases):
        reference = workload.reference(step)
        workload.reset(step)
        one = Process(step.work)
        time.sleep(random.uniform(0, reference.seconds / 2))
        outcomes = [one.wait() for one in (one, Process(step.work))]
        fault = next((outcome.fault for outcome in outcomes if outcome.fault), None)
        if fault is None and reference.code not in [outcome.code for outcome in outcomes]:
            fault = f"both refused: {[outcome.stderr[-200:] for outcome in outcomes]}"
        area.add(step.name, fault or workload.left() or workload.torn(step) or workload.repeated(step))


def limited(area: Area, workload: Workload, random: Random, cases: int) -> None:
    """No file may be larger than a limit: every file that a command writes is cut once."""
    for number, step in enumerate(workload.chosen(random, cases)):
        limits = _limits(workload, step)
        if number // len(workload.steps) >= len(limits):
            continue  # every limit was tried
        limit = limits[number // len(workload.steps)]
        workload.reset(step)
        outcome = Process(step.work, largest_file=limit).wait()
        fault = outcome.fault
        if outcome.code == 2 and not any(word in outcome.stderr for word in ("cannot", "could not", "disk")):
            fault = f"an unclear message: {outcome.stderr[-300:]}"
        fault = fault or workload.torn(step) or workload.left() or workload.repeated(step)
        area.add(f"{step.name}, at most {limit} bytes", fault)


def _limits(workload: Workload, step: Step) -> list[int]:
    """Limits at which each file that the step writes fails: in its first bytes, in the middle, and at its last byte."""
    reference = workload.reference(step)
    sizes = {len(content) for name, content in reference.files.items() if name not in workload.template_files}
    limits = {SMALLEST, *(size // 2 for size in sizes), *(size - 1 for size in sizes)}
    return sorted(limits, key=lambda limit: zlib.crc32(b"%d" % limit))  # in an order that is the same each time
