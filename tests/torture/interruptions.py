"""Commands that are killed, terminated or interrupted at random moments, and commands that work at the same time."""

import signal
from random import Random

from forked import Process
from results import Area
from workload import Step, Workload, ended

ENDINGS = {
    signal.SIGTERM: "terminated; run the same command again",
    signal.SIGHUP: "the terminal was closed; run the same command again",
    signal.SIGINT: "interrupted; run the same command again",
}


def killed(workload: Workload, random: Random, cases: int) -> Area:
    """kill -9 at a random moment: no file is torn, and the same command again leaves what it always leaves."""
    area = Area("kill -9")
    for step in workload.chosen(random, cases):
        reference = workload.reference(step)
        after = random.uniform(0, reference.seconds * 1.05)
        workload.reset(step)
        ended(Process(step.work), signal.SIGKILL, after)
        area.add(f"{step.name} after {after:.3f} s", workload.torn(step) or workload.repeated(step))
    return area


def signalled(workload: Workload, random: Random, cases: int) -> Area:
    """SIGTERM, SIGHUP and SIGINT: one sentence, the shell's exit code, and no temporary file is left at once."""
    area = Area("SIGTERM, SIGHUP, SIGINT")
    for number, step in enumerate(workload.chosen(random, cases)):
        sent = list(ENDINGS)[(number + number // len(workload.steps)) % len(ENDINGS)]
        after = random.uniform(0.02, workload.reference(step).seconds)
        workload.reset(step)
        outcome = ended(Process(step.work), sent, after)
        case = f"{step.name}, {sent.name} after {after:.3f} s"
        area.add(case, _ending_fault(workload, step, sent, outcome) or workload.torn(step) or workload.repeated(step))
    return area


def _ending_fault(workload: Workload, step: Step, sent: signal.Signals, outcome: object) -> str | None:
    code, stderr, _ = outcome  # type: ignore[misc]
    if code == workload.reference(step).code or (code == -sent and workload.finished(step)):
        return None  # it had finished
    if code != 128 + sent or "Traceback" in stderr or ENDINGS[sent] not in stderr.splitlines()[-1]:
        return f"exit code {code}: {stderr[-300:]}"
    return f"left {left}" if (left := workload.temporaries()) else None


def together(workload: Workload, random: Random, cases: int) -> Area:
    """Two processes with the same command: each succeeds or refuses in one sentence, and the output is whole."""
    area = Area("two writers")
    for step in workload.chosen(random, cases):
        reference = workload.reference(step)
        workload.reset(step)
        one = Process(step.work)
        one.send(0, after=random.uniform(0, reference.seconds / 2))
        two = Process(step.work)
        outcomes = [one.wait(), two.wait()]
        fault = next((outcome.fault for outcome in outcomes if outcome.fault), None)
        if fault is None and reference.code not in [outcome.code for outcome in outcomes]:
            fault = f"both refused: {[outcome.stderr[-200:] for outcome in outcomes]}"
        if fault is None and (left := workload.temporaries()):
            fault = f"left {left}"
        area.add(step.name, fault or workload.torn(step) or workload.repeated(step))
    return area
