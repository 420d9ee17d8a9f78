"""The lab: plays a seed of the simulator and shows what happened, step by step."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from chronik.console.calls import Call, ask, get
from chronik.console.commands import command
from chronik.console.errors import ConsoleError
from chronik.console.lab import RUN_S, Lab
from chronik.console.parameters import REQUIRED, choice, text, whole

SEED_MAX: Final = 2**53
KINDS: Final = ("", "message", "fault", "node", "client", "log", "invariant")


def lab_of(call: Call) -> Lab:
    lab = call.console.extras.get("lab")
    if lab is None:
        lab = call.console.extras["lab"] = Lab()
        call.console.at_close(lab.close)
    assert isinstance(lab, Lab)
    return lab


def _known() -> list[dict[str, Any]]:
    from chronik.sim.scenarios import SCENARIOS

    return [
        {
            "name": name,
            "text": " ".join((scenario.__doc__ or "").strip().partition("\n\n")[0].split()),
            "faults": [each.replace(" ", "-") for each in scenario.selectable],
        }
        for name, scenario in SCENARIOS.items()
    ]


@get("/lab/scenarios")
async def scenarios(call: Call) -> dict[str, Any]:
    return {"scenarios": await asyncio.to_thread(_known), "seconds_max": int(RUN_S)}


@ask("/lab/runs")
async def start(call: Call) -> dict[str, Any]:
    body = call.body
    scenario, seed, fault = (
        body.text("scenario", REQUIRED),
        body.whole("seed", REQUIRED, high=SEED_MAX),
        body.text("fault"),
    )
    body.done()
    known = {each["name"]: each["faults"] for each in await asyncio.to_thread(_known)}
    if scenario not in known:
        raise ConsoleError("BAD_BODY", f"there is no scenario {scenario[:40]!r}", f"choose one of {', '.join(known)}")
    if fault and fault not in known[scenario]:
        choices = ", ".join(known[scenario]) or "none"
        raise ConsoleError("BAD_BODY", f"scenario {scenario!r} has no fault {fault[:40]!r}", f"it has {choices}")
    words = ["--fault", fault] if fault else []
    line = command("sim", "--scenario", scenario, "--seed", seed, *words)
    return lab_of(call).start(scenario, seed, fault or None, line).document()


@get("/lab/runs")
async def runs(call: Call) -> dict[str, Any]:
    return {"runs": lab_of(call).runs()}


@get("/lab/runs/{id}")
async def run(call: Call) -> dict[str, Any]:
    return lab_of(call).run(call.path["id"]).document()


@get(
    "/lab/runs/{id}/trace",
    after=whole(0, 0, 2**31),
    limit=whole(2_000, 1, 10_000),
    kind=choice("", *KINDS),
    lane=text(chars_max=64),
)
async def trace(call: Call) -> dict[str, Any]:
    lab, query = lab_of(call), call.query
    found = lab.run(call.path["id"])
    events, following = await lab.events(found, query["after"], query["limit"], query["kind"], query["lane"])
    return {"events": events, "next": following, "state": found.state}


@ask("/lab/runs/{id}/cancel")
async def cancel(call: Call) -> dict[str, Any]:
    call.body.done()
    lab = lab_of(call)
    return {"done": await lab.cancel(lab.run(call.path["id"]))}
