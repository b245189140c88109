"""A constructor that takes its settings as one object is built, whatever the argument and its class are called."""

import pytest

from qkv.doctor import doctor
from qkv.doctor.source import file as source
from qkv.doctor.subject.subject import Subject

FILE = """
from dataclasses import dataclass
from typing import NamedTuple, Optional
import torch
from torch import nn

{settings}

class Attention(nn.Module):
    def __init__(self, p: {annotation}):
        super().__init__()
        self.n_head, self.dim = p.n_head, p.dim
        self.qkv, self.out = nn.Linear(p.dim, 3 * p.dim), nn.Linear(p.dim, p.dim)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.n_head, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        return self.out(((q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v).transpose(1, 2).flatten(2))
"""
DATACLASS = "@dataclass\nclass {name}:\n    dim: int = 64\n    n_head: int = 8\n"
BARE = "class {name}:\n    dim = 64\n    n_head = 8\n"
TUPLE = "class {name}(NamedTuple):\n    dim: int\n    n_head: int\n"


CASES = [
    *((DATACLASS, name, "{name}") for name in ("ModelConfig", "ModelArgs", "HParams", "TrainingSettings", "Shape")),
    *((DATACLASS, "ModelArgs", written) for written in ("'{name}'", "Optional[{name}]", "'{name} | None'")),
    *((settings, name, "{name}") for settings in (BARE, TUPLE) for name in ("ModelArgs", "Shape")),
    (BARE, "Shape", "'Optional[{name}]'"),
]


@pytest.mark.parametrize(("settings", "name", "written"), CASES)
def test_settings_in_an_object_annotated_with_its_class(settings, name, written):
    text = FILE.format(settings=settings.format(name=name), annotation=written.format(name=name))
    file = source.parse(text)
    report = doctor.check(file.load("Attention"), source=file, name="Attention")
    assert report.ok, report
    assert report.adapted["heads"] == 4  # built with our sizes, none of which another equals


@pytest.mark.parametrize("where", ["forward", "__init__"])
def test_what_calls_itself_without_end_is_called_once(where, monkeypatch):
    calls, call = [], Subject.__call__
    monkeypatch.setattr(Subject, "__call__", lambda self, *given, **more: calls.append(1) or call(self, *given, **more))
    text = FILE.format(settings="", annotation="'Shape'").replace("p: 'Shape'", "width, n_head")
    text = text.replace("p.n_head, p.dim\n", "n_head, width\n").replace("p.dim", "width")
    again = {"forward": "        return self(x)\n", "__init__": "        Attention(width, n_head)\n"}[where]
    begins = text.index("\n", text.index(f"def {where}")) + 1
    file = source.parse(text[:begins] + again + text[begins:])
    report = doctor.check(file.load("Attention"), source=file, name="Attention")
    assert report.verdict == "unknown" and "calls itself" in report.problem.say("en"), report
    assert len(calls) == (where == "forward")
