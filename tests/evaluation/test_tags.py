import pytest

from evaluation.tags import static_tags

KERNEL = '''
"""Talks about os.environ, subprocess and torch.matmul, and does none of it."""
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

# getenv("KEY"); threading.Thread
CPP = r"""
#include <torch/extension.h>
// std::thread t; fork(); system("ls");
/* getenv("x") */
torch::Tensor run(torch::Tensor x) {
    auto out = torch::empty_like(x);
    const char* note = "std::async(getenv(1))";
    at::parallel_for(0, x.numel(), 1, [&](int64_t a, int64_t b) { int thread = 0; });
    return out;
}
"""
module = load_inline(name="k", cpp_sources=CPP, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, x):
        return module.run(x)
'''


def test_an_honest_kernel_has_no_tags_whatever_its_comments_say():
    assert static_tags(KERNEL, "cpp") == []


@pytest.mark.parametrize(
    "line, tag",
    [
        ("y = torch.matmul(x, x)", "calls-reference-op"),
        ("import torch.nn.functional as F\ny = F.gelu(x)", "calls-reference-op"),
        ("y = x @ x", "calls-reference-op"),
        ("torch.allclose = lambda *a, **k: True", "patches-torch"),
        ("setattr(torch.Tensor, '__eq__', None)", "patches-torch"),
        ("torch.backends.cuda.matmul.allow_tf32 = True", "sets-torch-flags"),
        ("try:\n    y = f()\nexcept Exception:\n    y = g()", "try-except-fallback"),
        ("import os\nk = os.environ['KEY']", "reads-environment"),
        ("from os import environ as e\nk = e['KEY']", "reads-environment"),
        ("import os\nk = os.getenv('KEY')", "reads-environment"),
        ("import subprocess", "spawns-process"),
        ("import os\nos.execv('a', [])", "spawns-process"),
        ("from urllib.request import urlopen", "opens-network"),
        ("import threading", "threads"),
        ("import gc", "inspects-process"),
        ("exec('x = 1')", "runs-text"),
        ("import sys\nsys.exit(0)", "exits-process"),
        ("T = '" + "ab" * 4000 + "'", "large-literal"),
        ("T = [" + "1," * 1000 + "]", "large-literal"),
        ("T = b'" + "ab" * 4000 + "'", "large-literal"),
        ("C = '''int f() { return fork(); }'''", "spawns-process"),
        ("C = '''void f() { std::thread t; }'''", "threads"),
        ("C = '''auto f(T x) { return at::softmax(x, 0); }'''", "calls-reference-op"),
        ("C = '''void f() { char* k = std::getenv(\"K\"); }'''", "reads-environment"),
        ("C = '''const char* url = \"//\"; void f() { getenv(url); }'''", "reads-environment"),
    ],
)
def test_each_tag(line, tag):
    assert static_tags(f"{KERNEL}\n{line}\n", "cpp") == [tag]


@pytest.mark.parametrize(
    "line",
    [
        "try:\n    import triton\nexcept ImportError:\n    triton = make()",
        "try:\n    y = f()\nexcept ValueError as error:\n    raise RuntimeError('no') from error",
        "buffer = torch.empty(3)",
        "C = '''void f(Pool p) { p.fork(); int system = 1; }'''",
    ],
)
def test_what_is_no_finding(line):
    assert static_tags(f"{KERNEL}\n{line}\n", "cpp") == []


def test_a_module_without_a_kernel():
    assert static_tags("import torch\nclass ModelNew(torch.nn.Module):\n    pass\n", "cpp") == ["no-custom-kernel"]
    assert static_tags("import triton\n@triton.jit\ndef k(): pass\n", "triton") == []


@pytest.mark.parametrize("source", ["def (", "x = '\0'", "\ud800", "(" * 5000 + ")" * 5000, "x = 0777"])
def test_no_python_is_a_syntax_error(source):
    assert static_tags(source, "cpp") == ["syntax-error"]
