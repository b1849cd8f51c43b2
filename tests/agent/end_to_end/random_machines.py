"""Plans of machines with random faults. The seed determines the faults."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

from gpu_agent.outcomes import OUTCOMES

from tests.agent.fakes import events
from tests.agent.fakes.boot import says
from tests.agent.fakes.github import Fault as GithubFault
from tests.agent.fakes.google import Fault
from tests.agent.fakes.manager import KEY, SEALED, USELESS, Answer
from tests.agent.fakes.runner import NO_LIBICU, VERSION, WAITS, WAITS_FOR_GO, job
from tests.agent.fakes.whole_machine import ANNOUNCED, AT_WORK, Plan

_STEPS = (*events.STEP_PLANS, AT_WORK)
_STATUS = (400, 401, 403, 404, 409, 422, 429, 500, 502, 503)
_JOBS = (
    *(job(), job("time.sleep(0.5)"), job("end(1)"), job("os.kill(os.getpid(), 9)"), job(WAITS), job(WAITS_FOR_GO)),
    *(WAITS, "end(0)", "end(1)", "end(2)", "end(5)", "end(7)", "time.sleep(1)\nend(0)"),
    # Processes that a job may leave.
    job("subprocess.Popen(['sleep', '60'], start_new_session=True)"),
)
_SMOKES = (
    says("GPU 0: wrong numbers", 1),
    says("", 3),
    "raise SystemExit(4)",
    "import time; time.sleep(60)",
    "import os; os.abort()",
)
_RELEASES = (
    lambda _, it: (200, it[:-99], len(it)),
    lambda asked, it: (200, it if asked else it[:-99], len(it)),
    lambda _, it: (200, it + b"x", len(it) + 1),
    lambda _, it: (404, b"", 0),
    events.hangs,
)


class RandomMachine(NamedTuple):
    """One machine with random faults."""

    plan: Plan
    faults: list[str]
    """The faults, as text."""

    def broken(self, found: dict[str, Any]) -> list[str]:
        """Return the rules that the machine broke."""
        lost = sum(each.done_anyway for each in self.plan.github.get("register", []))
        problems = broken(found, 1 + lost)
        killed = any(word in fault for fault in self.faults for word in ("kill", "remove"))
        reason = (found["end"] or {}).get("reason")
        if self.plan.answer:
            problems += self._broken_with_manager(self.plan.answer, found, reason)
        elif found["runners"] and not (lost or killed or "Running job" in found["serial"]):
            problems.append("it left a runner at GitHub that nobody starts")
        if reason == "crashed" and not any("kill" in fault for fault in self.faults):
            problems.append("its agent failed, and nobody killed it")
        if not self.faults and reason != "job-done":
            problems.append("it met no fault, and its job was not done")
        return problems

    def _broken_with_manager(self, answer: Answer, found: dict[str, Any], reason: str | None) -> list[str]:
        """Return the rules that a machine without a GitHub key broke. The manager unregisters its runner."""
        useless = answer.how in USELESS or answer.after_sec > self.plan.register_sec
        started = ["blob", "environ"] in found["allowed"] or "Running job" in found["serial"]
        expected = "not-registered" if useless else "job-done"
        alone = self.faults == [_answer_text(answer)]
        rules = {
            f"it asked GitHub for {found['asked of github']}": not found["asked of github"],
            f"it read {found['secrets read']} secrets": not found["secrets read"],
            "it started a runner without a registration of its own": not (useless and started),
            f"it ended as {reason} and not as {expected}": not alone or reason == expected,
        }
        return [rule for rule, holds in rules.items() if not holds]


def _answer_text(answer: Answer) -> str:
    return f"registration {answer.how} after {answer.after_sec} s"


def random_machine(seed: int) -> RandomMachine:
    """Return the machine of this seed. Most have one or two faults, and a tenth has none."""
    pick = random.Random(seed)
    plan = Plan(idle_sec=2, register_sec=12, check_sec=5, limit_sec=90)
    count = pick.choice((0, 1, 1, 1, 1, 2, 2, 2, 3, 3))
    if pick.random() < 0.5:
        plan.answer = Answer()
    kinds = [*_KINDS, *([_registration] * 4 if plan.answer else [_github] * 2)]
    faults = [add(plan, pick) for add in pick.sample(kinds, k=count)]
    if not faults:
        plan.idle_sec = plan.register_sec = plan.check_sec = 60
    return RandomMachine(plan, faults)


def _github(plan: Plan, pick: random.Random) -> str:
    route = pick.choice(("token", "groups", "register", "remove"))
    how = pick.choice(("", "", "", "hang", "drip", "reset", "truncated"))
    status = 0 if how else pick.choice(_STATUS)
    headers = pick.choice(({}, {"Retry-After": "1"}, {"Retry-After": "3600"}, {"Retry-After": "soon"}))
    times = pick.choice((1, 1, 2, 30))
    fault = GithubFault(how, status, headers, done_anyway=times == 1 and pick.random() < 0.3)
    plan.github = {**plan.github, route: [fault] * times}
    return f"github {route}: {how or status} {headers or ''} x {times}{', done anyway' * fault.done_anyway}"


def _registration(plan: Plan, pick: random.Random) -> str:
    """The registration comes after the machine's deadline, or cannot be used. The last of two answers counts."""
    late = plan.register_sec / 3
    how, after_sec = pick.choice((("", late), ("", plan.register_sec + 2.0), *((how, 0.05) for how in USELESS)))
    plan.answer = Answer(how, after_sec)
    return _answer_text(plan.answer)


def _google(plan: Plan, pick: random.Random) -> str:
    path = pick.choice(
        (":access", "default/token", "gpu-ci-role", "gpu-agent-config", "gpu-smoke-pyz", "entries:write")
    )
    if plan.answer:
        # A path with a question mark is a request that waits. The other one is also a read of an earlier boot's value.
        path = pick.choice((path, f"{SEALED}?", f"{SEALED}?", SEALED, f"guest-attributes/{KEY}"))
    path = pick.choice((path, path, "guest-attributes", "instance/preempted", "instance/name", "/"))
    times = pick.choice((1, 1, 2, 99))
    fault = Fault(
        path, times, **pick.choice(({"status": 403}, {"status": 404}, {"status": 503}, {"cut": True}, {"hang": True}))
    )
    plan.google = [*plan.google, fault]
    return f"google {fault.path}: {fault.status or ('cut' if fault.cut else 'hang')} x {times}"


def _event(plan: Plan, pick: random.Random) -> str:
    name, when = pick.choice(list(events.EVENTS)), pick.choice((pick.choice(_STEPS), round(pick.uniform(0.2, 4), 2)))
    plan.at = [*plan.at, (when, events.EVENTS[name])]
    return f"{name} at {when}"


def _kept_in_step(plan: Plan, pick: random.Random) -> str:
    """Keep the machine in a step until an event, if no other fault uses the same parts of the plan."""
    step, name = pick.choice(("check", "waiting", "job")), pick.choice(list(events.EVENTS))
    hold = events.plan_at(step, events.EVENTS[name])
    plan.does, plan.at = hold.does, [*plan.at, *hold.at]
    if step == "check":
        plan.smoke = hold.smoke
    if (step, name) == ("job", "maintain"):
        # The announcement does not end the job. The end of the host, up to an hour later, does.
        plan.at = [*plan.at, (ANNOUNCED, events.terminate)]
    return f"{name} while it is held in {step}"


def _job(plan: Plan, pick: random.Random) -> str:
    number = pick.randrange(len(_JOBS))
    plan.does = _JOBS[number]
    if plan.does == job(WAITS):
        # Only the end of its machine ends this job.
        plan.at = [*plan.at, (AT_WORK, pick.choice((events.preempt, events.terminate, events.shut_down)))]
    plan.at = [*plan.at, (AT_WORK, events.go)]
    return f"job {number}"


def _smoke(plan: Plan, pick: random.Random) -> str:
    number = pick.randrange(len(_SMOKES))
    plan.smoke = _SMOKES[number]
    return f"check {number}"


def _release(plan: Plan, pick: random.Random) -> str:
    number = pick.randrange(len(_RELEASES))
    plan.release = _RELEASES[number]
    return f"release {number}"


def _gpu(plan: Plan, pick: random.Random) -> str:
    act, when = pick.choice((events.no_gpu, events.leave_process)), pick.choice(_STEPS)
    plan.at = [*plan.at, (when, act)]
    return f"{act.__name__} at {when}"


def _machine(plan: Plan, pick: random.Random) -> str:
    what = pick.choice(("role", "skew", "disk", "image"))
    if what == "role":
        plan.role = "check"
    elif what == "skew":
        plan.skew_sec = pick.choice((-3600, -45, 45, 3600))
    elif what == "image":
        plan.loads, plan.version = pick.choice((("", VERSION), (NO_LIBICU, VERSION), ("", "2.300.0")))
        return f"image without libicu {bool(plan.loads)}, runner {plan.version}"
    else:
        plan.small = {"/var/lib": pick.choice(("60k", "400k", "1m"))}
    return f"{what} {plan.role or plan.skew_sec or plan.small}"


_KINDS = [_google, _google, _event, _event, _kept_in_step, _job, _smoke, _release, _gpu, _machine]


def broken(found: dict[str, Any], registered: int = 1) -> list[str]:
    """Return the rules that a machine broke. `registered` is the number of registrations that GitHub may have made for
    it.
    """
    rules = {
        "it lived on after its deadline": not found["alive"],
        "it said no reason, or not one of the known": bool(found["end"]) and found["end"]["reason"] in OUTCOMES,
        f"it said {found['ends']} ends": found["ends"] == 1,
        # A machine that ends as `used` runs no check.
        f"it said {found['verdicts']} verdicts": found["verdicts"] == ((found["end"] or {}).get("reason") != "used"),
        f"it was switched off {found['off']} times": found["off"] == 1,
        f"secrets lay in {found['leaked']}": not found["leaked"],
        f"it registered {found['registered']} runners": found["registered"] <= registered,
        "its job had the identity": "JOB HAS THE IDENTITY" not in found["serial"],
        # The scanner is to scan fifty times a second, which a busy computer may not reach.
        f"only {found['rounds']} looks for secrets": found["rounds"] > found["sec"] * 2,
    }
    return [rule for rule, holds in rules.items() if not holds]
