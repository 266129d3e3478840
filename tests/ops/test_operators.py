"""Without a kernel, operators are torch's own in every respect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 (torch's own custom)

from autosched import ops

Tensor = torch.Tensor


def randn(*shape: int, dtype: torch.dtype = torch.float32, grad: bool = False) -> Tensor:
    return torch.randn(*shape, dtype=dtype, requires_grad=grad)


X, W, B = randn(2, 4, 9, 8), randn(6, 2, 3, 3), randn(6)
#: Ours, torch's, and arguments: every rank, odd layouts, no elements.
CASES: dict[str, tuple[Callable[..., Tensor], Callable[..., Tensor], tuple[Any, ...]]] = {
    "matmul": (ops.matmul, torch.matmul, (randn(5, 7), randn(7, 3))),
    "matmul of views": (ops.matmul, torch.matmul, (randn(7, 5).t(), randn(3, 7).t())),
    "matmul of batches": (ops.matmul, torch.matmul, (randn(2, 5, 7), randn(2, 7, 3))),
    "matmul broadcast": (ops.matmul, torch.matmul, (randn(2, 1, 5, 7), randn(4, 7, 3))),
    "matmul of nothing": (ops.matmul, torch.matmul, (randn(0, 7), randn(7, 3))),
    "matmul in float64": (
        ops.matmul,
        torch.matmul,
        (randn(5, 7, dtype=torch.float64), randn(7, 3, dtype=torch.float64)),
    ),
    "linear": (ops.linear, F.linear, (randn(2, 5, 7), randn(3, 7), randn(3))),
    "linear of a vector": (ops.linear, F.linear, (randn(7), randn(3, 7))),
    "conv1d": (ops.conv1d, F.conv1d, (randn(2, 4, 9), randn(6, 4, 3), randn(6), 2, 1)),
    "conv2d": (ops.conv2d, F.conv2d, (X, W, B, (2, 1), (1, 0), 2, 2)),
    "conv2d same": (ops.conv2d, F.conv2d, (X, randn(6, 4, 4, 2), None, 1, "same")),
    "conv2d last": (
        ops.conv2d,
        F.conv2d,
        tuple(t.to(memory_format=torch.channels_last) for t in (X, randn(6, 4, 3, 3))),
    ),
    "conv2d of one image": (ops.conv2d, F.conv2d, (X[0], randn(6, 4, 3, 3))),
    "conv3d": (ops.conv3d, F.conv3d, (randn(1, 2, 4, 5, 6), randn(3, 2, 2, 2, 2))),
}
each = pytest.mark.parametrize("name", list(CASES))
#: torch says once in a process that an even kernel at "same" may cost it a copy.
pytestmark = pytest.mark.filterwarnings("ignore:Using padding='same'")


@each
def test_results_are_torchs(name: str) -> None:
    ours, torchs, arguments = CASES[name]
    made, wanted = ours(*arguments), torchs(*arguments)
    torch.testing.assert_close(made, wanted)
    assert made.stride() == wanted.stride()


@each
def test_gradients_are_torchs(name: str) -> None:
    ours, torchs, arguments = CASES[name]
    grads = []
    for function in (ours, torchs):
        leaves = [
            t.detach().clone().requires_grad_() if isinstance(t, Tensor) else t for t in arguments
        ]
        made = function(*leaves)
        made.backward(torch.linspace(-1, 1, made.numel(), dtype=made.dtype).view_as(made))
        grads.append([t.grad for t in leaves if isinstance(t, Tensor)])
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(
    ("operator", "arguments"),
    [
        ("matmul", (randn(5, 7, grad=True), randn(7, 3, grad=True), None, None, 0)),
        ("matmul", (randn(5, 7), randn(7, 3), randn(3), "relu", 0)),
        ("linear", (randn(2, 5, 7, grad=True), randn(3, 7, grad=True), randn(3), None, 0)),
        ("conv", (X, W, B, None, [1, 1], [1, 1], "", [1, 1], 2, 0)),
        (
            "conv",
            (X, randn(6, 4, 3, 3, grad=True), None, None, [1, 1], [0, 0], "same", [1, 1], 1, 0),
        ),
    ],
)
def test_opcheck(operator: str, arguments: tuple[Any, ...]) -> None:
    torch.library.opcheck(getattr(torch.ops.autosched, operator).default, arguments)


def test_gradients_of_gradients() -> None:
    a, b = (randn(3, 3, dtype=torch.float64, grad=True) for _ in range(2))
    assert torch.autograd.gradcheck(ops.matmul, (a, b))
    assert torch.autograd.gradgradcheck(ops.linear, (a, b))
    x = randn(1, 2, 5, 5, dtype=torch.float64, grad=True)
    w = randn(2, 2, 2, 2, dtype=torch.float64, grad=True)
    assert torch.autograd.gradcheck(lambda x, w: ops.conv2d(x, w, padding="same"), (x, w))


def model(x: Tensor) -> Tensor:
    y = ops.conv2d(x, CASES["conv2d last"][2][1], None, 1, 1, activation="relu")
    return ops.linear(y.flatten(2), torch.ones(3, 72), activation="gelu")


def test_under_compile_each_is_one_node_of_a_full_graph() -> None:
    seen: list[str] = []

    def backend(graph: torch.fx.GraphModule, _: object) -> Any:
        seen.extend(str(node.target) for node in graph.graph.nodes if node.op == "call_function")
        return graph.forward

    compiled = torch.compile(model, backend=backend, fullgraph=True)
    with torch.no_grad():
        torch.testing.assert_close(compiled(X), model(X))
    assert [name for name in seen if name.startswith("autosched")] == [
        "autosched.conv.default",
        "autosched.linear.default",
    ]


def test_gradients_under_compile() -> None:
    x = X.clone().requires_grad_()
    torch.compile(model, backend="aot_eager", fullgraph=True)(x).sum().backward()
    compiled, x.grad = x.grad, None
    model(x).sum().backward()
    torch.testing.assert_close(x.grad, compiled)


def test_export() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return model(x)

    exported = torch.export.export(Model(), (X,))
    torch.testing.assert_close(exported.module()(X), model(X))


def test_autocast_casts_as_torch_does() -> None:
    x, w = randn(5, 7), randn(3, 7)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        made = ops.linear(x, w)
        assert made.dtype == F.linear(x, w).dtype == torch.bfloat16
        torch.testing.assert_close(made, F.linear(x, w))


def test_transforms_see_torch() -> None:
    a, b = randn(4, 5, 7), randn(7, 3)
    torch.testing.assert_close(torch.func.vmap(ops.matmul, (0, None))(a, b), a @ b)
    grad = torch.func.grad(lambda a: ops.matmul(a, b).sum())(a[0])
    torch.testing.assert_close(grad, torch.ones(5, 3) @ b.t())


def test_an_unknown_activation_is_named() -> None:
    with pytest.raises(ValueError, match="activation='tanh' is not known; known: relu"):
        ops.linear(randn(2, 2), randn(2, 2), activation="tanh")


def test_wrong_shapes_are_torchs_to_refuse() -> None:
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        ops.matmul(randn(2, 3), randn(2, 3))
    with pytest.raises(RuntimeError, match=r"Expected 3D .* or 4D"):
        ops.conv2d(randn(2, 3), W)
