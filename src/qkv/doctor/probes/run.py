"""All probes in turn: what explains other symptoms comes first."""

from ..case import Case
from ..subject.errors import UserError
from . import changes, modules, weights
from .probe import Probe

PROBES = {
    one.name: one for room in (weights, changes, modules) for one in vars(room).values() if isinstance(one, Probe)
}


def run_probes(case: Case, only: tuple[str, ...] = tuple(PROBES)) -> None:
    """Those that were not run yet; one that the user's code stops says so."""
    for name in only:
        if name in case.checked:
            continue
        try:
            PROBES[name].look(case)
            if name not in case.skipped and name not in case.unseen:
                case.checked.append(name)
        except UserError as error:
            case.stopped(name, error)
