"""The watcher of operations: what it sees of a run, and what it may change in it."""

import inspect

import torch
import torch.nn.functional as F
from torch import nn

from qkv.doctor.subject.capture import Capture
from qkv.watching import Operation, Watcher, running_module, source_span


class Log(Watcher):
    """Every operation, with its module and its place in this file."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[tuple[Operation, nn.Module | None, tuple[int, int] | None]] = []

    def on_operation(self, operation):
        self.records.append((operation, running_module(), source_span(__file__)))
        return operation.run()


def test_an_operation_has_its_inputs_outputs_module_and_line():
    layer, x = nn.Linear(3, 2), torch.ones(4, 3)
    with Log() as log:
        y = layer(x) * 2  # this line
    line = inspect.currentframe().f_lineno - 1
    (linear, module, span), (times, outside, _) = log.records
    assert (linear.function, module, outside) == (F.linear, layer, None)
    assert [id(t) for t in linear.inputs] == [id(x), id(layer.weight), id(layer.bias)]
    assert times.name == "mul" and times.outputs[0] is y and times.inputs[0] is linear.result
    assert span[0] == line and span[1] == 12


def test_nothing_is_recorded_after_the_block_or_in_another_file():
    with Log() as log:
        torch.ones(1)
    torch.ones(1)
    assert len(log.records) == 1 and source_span("elsewhere.py") is None


def test_arguments_are_located_and_replaced_by_position_or_keyword():
    x = torch.ones(2)
    for args, kwargs in (((x, 0.5, True), {}), ((x,), {"p": 0.5, "training": True})):
        operation = Operation(F.dropout, args, dict(kwargs))
        assert (operation.argument("p", 1), operation.argument("inplace", 3, False)) == (0.5, False)
        operation.replace_argument("p", 1, 0.0)
        assert torch.equal(operation.run(), x) and operation.argument("p", 1) == 0.0


def test_dropout_in_eval_mode_is_ignored_under_either_name():
    x = torch.ones(2)
    with Capture(roots=[x]) as capture:
        torch.dropout(x, 0.5, train=False)
        torch.dropout(x, 0.5, False)
        F.dropout(x, 0.5, training=False)
    assert capture.dropped == []
    with Capture(roots=[x]) as capture:
        assert torch.equal(torch.dropout(x, p=0.5, train=True), x) and torch.equal(F.dropout(x, 0.25), x)
    assert capture.dropped == [0.5, 0.25]
