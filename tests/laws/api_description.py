"""Descriptions of public objects: signatures and members of classes, without the modules that they come from."""

import ast
import dataclasses
import functools
import inspect
import re
import sys
import types
from contextlib import suppress


@functools.cache
def scope_of(module):
    """Return the names of a module, with those that it imports for type checkers alone."""
    scope = dict(vars(sys.modules[module]))
    with suppress(OSError, TypeError):  # no source
        for node in ast.parse(inspect.getsource(sys.modules[module])).body:
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                with suppress(ImportError):
                    exec(compile(ast.Module(node.body, []), module, "exec"), scope)
    return scope


def format_annotation(annotation, scope):
    """Return an annotation without module paths, evaluated where it can be, so that aliases show what they stand for."""
    if annotation is inspect.Parameter.empty:
        return None
    if isinstance(annotation, str):
        try:
            annotation = eval(annotation, scope)
        except Exception:  # a name that isn't there, as in stubs of other libraries
            pass
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return strip_paths(text.replace('"', "'"))


def strip_paths(text):
    """Drop module paths and memory addresses from a text."""
    text = re.sub(r"<(?:class|module|enum) '([^']+)'[^>]*>", r"\1", text)
    text = re.sub(r"<(?:bound method|function|built-in function) ([\w.<>]+?)(?: of .*)?(?: at 0x\w+)?>", r"\1", text)
    text = re.sub(r"\b(?:[A-Za-z_]\w*\.)+([A-Za-z_]\w*)", r"\1", text)
    text = re.sub(r"ForwardRef\('([^']*)'\)", r"\1", text)
    return re.sub(r" at 0x\w+", "", text)


def format_signature(function):
    """Return "(name: type = default, …) -> type" without module paths."""
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        return "(…)"
    constructor = (
        (vars(function).get("__init__") or vars(function).get("__new__")) if inspect.isclass(function) else None
    )
    scope = scope_of((constructor if inspect.isfunction(constructor) else inspect.unwrap(function)).__module__)
    parts, last = [], None
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and last not in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL):
            parts.append("*")
        if last is parameter.POSITIONAL_ONLY and parameter.kind is not last:
            parts.append("/")
        text = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "") + parameter.name
        annotation = format_annotation(parameter.annotation, scope)
        text += f": {annotation}" if annotation is not None else ""
        if parameter.default is not parameter.empty:
            text += f" = {strip_paths(repr(parameter.default))}"
        parts.append(text)
        last = parameter.kind
    parts += ["/"] if last is inspect.Parameter.POSITIONAL_ONLY else []
    result = format_annotation(signature.return_annotation, scope)
    return f"({', '.join(parts)})" + (f" -> {result}" if result is not None else "")


# Operators that a class offers by special methods.
OPERATORS = """call getitem len iter contains eq and or invert add sub enter exit repr str repr_html""".split()
OPERATORS = {f"__{name}__" for name in OPERATORS} | {"_repr_html_"}


def describe(value, recorded=None):
    """Return the description of a public object; `known` is the recorded one of a module."""
    if isinstance(value, types.ModuleType):
        return {"module": describe_module(value, (recorded or {}).get("module", {}))}
    if inspect.isclass(value):
        return describe_class(value)
    if callable(value):
        return format_signature(value)
    return f"{type(value).__name__} {strip_paths(repr(value))}"


def describe_module(module, recorded):
    """Describe what a module defines, and what was recorded of it and is still there, wherever it is defined now."""
    own = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isfunction(value) or inspect.isclass(value))
        and value.__module__ == module.__name__
    ]
    names = sorted({*own, *(name for name in recorded if hasattr(module, name))})
    return {name: describe(getattr(module, name), recorded.get(name)) for name in names}


def describe_class(cls):
    """Describe how to make it, its bases, fields with defaults, methods and properties, as far as qkv defines them."""
    family = [each for each in cls.__mro__ if each.__module__.split(".")[0] == "qkv"]
    fields, attributes = {}, {}
    scope = scope_of(cls.__module__)
    if dataclasses.is_dataclass(cls):
        for field in dataclasses.fields(cls):
            default = "" if field.default is dataclasses.MISSING else f" = {strip_paths(repr(field.default))}"
            if field.default_factory is not dataclasses.MISSING:
                default = f" = {field.default_factory.__name__}()"
            if not field.name.startswith("_"):
                fields[field.name] = f"{format_annotation(field.type, scope)}{default}"
    else:
        for each in family:
            attributes |= {name: "attribute" for name in inspect.get_annotations(each) if not name.startswith("_")}
    members = {}
    for name in sorted({name for each in family for name in vars(each)}):
        if (name.startswith("_") and name not in OPERATORS) or name in fields:
            continue
        member = inspect.getattr_static(cls, name)
        if isinstance(member, property):
            members[name] = f"property {format_signature(member.fget)}"
        elif isinstance(member, functools.cached_property):
            members[name] = f"cached property {format_signature(member.func)}"
        elif isinstance(member, classmethod | staticmethod):
            members[name] = f"{type(member).__name__} {format_signature(member.__func__)}"
        elif inspect.isfunction(member):
            # Of operators the name is enough: dataclasses and NamedTuples make their own.
            members[name] = "operator" if name in OPERATORS else format_signature(member)
        elif callable(member) or name in attributes:
            members[name] = "attribute"
        else:
            members[name] = f"attribute {strip_paths(type(member).__name__)}"
    bases = [each.__name__ for each in cls.__mro__[1:-1]]
    described = {"class": cls.__name__ + format_signature(cls), "bases": bases, "fields": fields}
    return {key: value for key, value in (described | {"members": attributes | members}).items() if value}
