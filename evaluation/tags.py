"""What a candidate's source looks like: advice for a reader, never a verdict. Comments and docstrings never convict.

Python is read as a syntax tree; C++ in its strings as tokens, without comments. Both are easy to evade, on purpose or
not: what a kernel *does* is decided by running it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

LARGE_LITERAL_CHARS = 4096
"""A longer string without line breaks, or bytes, is a payload rather than source code."""
LARGE_SEQUENCE = 256
"""A list or tuple of more constants is a table."""

_CUSTOM_KERNEL_NAMES = {"load_inline", "load", "jit", "RawKernel", "RawModule", "CDLL"}
_CUSTOM_KERNEL_MODULES = {"triton", "tilelang", "cutlass", "cupy", "numba", "torch.utils.cpp_extension", "ctypes"}
_MODULE_TAGS = {
    "subprocess": "spawns-process",
    "multiprocessing": "spawns-process",
    "pty": "spawns-process",
    "socket": "opens-network",
    "urllib": "opens-network",
    "http": "opens-network",
    "requests": "opens-network",
    "ftplib": "opens-network",
    "ssl": "opens-network",
    "threading": "threads",
    "_thread": "threads",
    "concurrent": "threads",
    "asyncio": "threads",
    "gc": "inspects-process",
    "inspect": "inspects-process",
    "ctypes": "inspects-process",
}
_CALL_TAGS = {
    "os.getenv": "reads-environment",
    "os.system": "spawns-process",
    "os.popen": "spawns-process",
    "os.fork": "spawns-process",
    "os._exit": "exits-process",
    "sys.exit": "exits-process",
    "sys._getframe": "inspects-process",
    "torch.manual_seed": "seeds-random",
    "torch.load": "reads-files",
    "open": "reads-files",
    "exec": "runs-text",
    "eval": "runs-text",
    "__import__": "runs-text",
}
_CALL_PREFIX_TAGS = {"os.exec": "spawns-process", "os.spawn": "spawns-process", "os.posix_spawn": "spawns-process"}
_CPP_CALL_TAGS = {
    "reads-environment": {"getenv", "secure_getenv"},
    "spawns-process": {"fork", "vfork", "execve", "execv", "execvp", "execl", "popen", "system", "posix_spawn"},
    "opens-network": {"socket", "getaddrinfo"},
    "threads": {"pthread_create"},
    "exits-process": {"_exit", "_Exit", "quick_exit", "exit", "abort"},
    "reads-files": {"fopen", "mmap"},
    "inspects-process": {"ptrace", "process_vm_readv", "process_vm_writev", "dlsym", "dlopen"},
}
_CPP_QUALIFIED_TAGS = {
    "std::thread": "threads",
    "std::jthread": "threads",
    "std::async": "threads",
    "std::ifstream": "reads-files",
    "std::fstream": "reads-files",
}
_NO_OPERATOR = {
    "empty", "empty_like", "zeros", "zeros_like", "ones", "ones_like", "full", "tensor", "device", "no_grad",
    "from_blob", "get_default_dtype", "manual_seed", "load", "set_num_threads", "get_num_threads", "is_tensor",
    "compile", "save", "parallel_for", "dtype", "typeMetaToScalarType", "getCurrentCUDAStream",
}  # fmt: skip
"""Functions of `torch` and `at` that make or describe tensors, or run the caller's own code."""
_CPP_TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?(?:\*/|\Z)|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[A-Za-z_]\w*|::|->|\S""", re.DOTALL
)


def static_tags(source: str, language: str) -> list[str]:
    """Tags of a candidate's source, sorted. `language` names what its strings hold: `cpp`, `cuda`, `triton`, ...

    Text that is no Python gives the one tag `syntax-error`; nothing raises.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ["syntax-error"]
    docstrings = _docstrings(tree)
    aliases = _aliases(tree)
    tags: set[str] = set()
    custom = False
    for node in ast.walk(tree):
        tags.update(_python_tags(node, aliases))
        tags.update(_changes_torch(node, aliases))
        custom = custom or _is_custom_kernel(node, aliases)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            tags.update(_text_tags(node.value, language))
    if not custom:
        tags.add("no-custom-kernel")
    return sorted(tags)


def _aliases(tree: ast.AST) -> dict[str, str]:
    """Local name -> dotted name, for everything imported."""
    aliases = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                head = name.name.split(".")[0]
                aliases[name.asname or head] = name.name if name.asname else head
        elif isinstance(node, ast.ImportFrom) and node.module:
            for name in node.names:
                aliases[name.asname or name.name] = f"{node.module}.{name.name}"
    return aliases


def _dotted(node: ast.AST, aliases: dict[str, str]) -> str:
    """`a.b.c` with its first part resolved; empty for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([aliases.get(node.id, node.id), *reversed(parts)])


def _python_tags(node: ast.AST, aliases: dict[str, str]) -> Iterator[str]:
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        modules = [name.name for name in node.names] if isinstance(node, ast.Import) else [node.module or ""]
        yield from (_MODULE_TAGS[top] for top in (module.split(".")[0] for module in modules) if top in _MODULE_TAGS)
    elif isinstance(node, ast.Call):
        yield from _call_tags(_dotted(node.func, aliases))
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        yield "calls-reference-op"
    elif isinstance(node, ast.ExceptHandler) and _falls_back(node):
        yield "try-except-fallback"
    elif isinstance(node, (ast.Attribute, ast.Name)) and _dotted(node, aliases) == "os.environ":
        yield "reads-environment"
    elif isinstance(node, (ast.List, ast.Tuple)) and len(node.elts) > LARGE_SEQUENCE:
        if all(isinstance(item, ast.Constant) for item in node.elts):
            yield "large-literal"
    elif isinstance(node, ast.Constant) and isinstance(node.value, bytes) and len(node.value) > LARGE_LITERAL_CHARS:
        yield "large-literal"


def _call_tags(name: str) -> Iterator[str]:
    if name in _CALL_TAGS:
        yield _CALL_TAGS[name]
    yield from (tag for prefix, tag in _CALL_PREFIX_TAGS.items() if name.startswith(prefix))
    namespace, _, operator = name.rpartition(".")
    if namespace in ("torch", "torch.nn.functional") and operator.islower() and operator not in _NO_OPERATOR:
        yield "calls-reference-op"


def _changes_torch(node: ast.AST, aliases: dict[str, str]) -> Iterator[str]:
    """Assignments to torch's own attributes: a flag of a backend, or something that should not be replaced."""
    targets: list[ast.expr] = []
    if isinstance(node, (ast.Assign, ast.Delete)):
        targets = node.targets
    elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
        targets = [node.target]
    elif isinstance(node, ast.Call) and _dotted(node.func, aliases) in ("setattr", "delattr"):
        targets = node.args[:1]
    for name in (_dotted(target, aliases) for target in targets):
        if name.startswith("torch.backends."):
            yield "sets-torch-flags"
        elif name == "torch" or name.startswith("torch."):
            yield "patches-torch"


def _falls_back(handler: ast.ExceptHandler) -> bool:
    """Whether it goes on with other work, and not for want of a module."""
    caught = [_dotted(part, {}) for part in ast.walk(handler.type)] if handler.type else []
    if caught and set(caught) <= {"ImportError", "ModuleNotFoundError", ""}:
        return False
    parts = [part for step in handler.body for part in ast.walk(step)]
    goes_on = not any(isinstance(part, ast.Raise) for part in parts)
    return goes_on and any(isinstance(part, (ast.Return, ast.Call)) for part in parts)


def _is_custom_kernel(node: ast.AST, aliases: dict[str, str]) -> bool:
    if isinstance(node, (ast.Name, ast.Attribute)):
        name = _dotted(node, aliases)
        module, _, last = name.rpartition(".")
        if last in _CUSTOM_KERNEL_NAMES:
            return any(module == known or module.startswith(f"{known}.") for known in _CUSTOM_KERNEL_MODULES)
    return False


def _docstrings(tree: ast.AST) -> set[int]:
    """Ids of the string nodes that stand alone as statements, docstrings among them."""
    return {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)}


def _text_tags(text: str, language: str) -> Iterator[str]:
    if len(text) > LARGE_LITERAL_CHARS and "\n" not in text:
        yield "large-literal"
    elif language in ("cpp", "cuda") and ("{" in text or "#include" in text):
        yield from _cpp_tags(text)


def _cpp_tags(text: str) -> Iterator[str]:
    # What a name means is read off its neighbours: `at::softmax(`, `getenv(`, but neither `.fork(` nor `open = 1`.
    tokens = [token for token in _CPP_TOKEN.findall(text) if not token.startswith(("//", "/*"))]
    padded = ["", "", *tokens, ""]
    for before, separator, name, after in zip(padded, padded[1:], padded[2:], padded[3:], strict=False):
        called = after == "("
        if separator == "::":
            if f"{before}::{name}" in _CPP_QUALIFIED_TAGS:
                yield _CPP_QUALIFIED_TAGS[f"{before}::{name}"]
            if called and before in ("at", "torch") and name not in _NO_OPERATOR:
                yield "calls-reference-op"
        if called and separator not in (".", "->"):
            yield from (tag for tag, words in _CPP_CALL_TAGS.items() if name in words)
        if name.startswith('"') and len(name) > LARGE_LITERAL_CHARS:
            yield "large-literal"
