"""The functions of the ClassAd language: those of the library, and those that HTCondor's daemons add.

Source: docs/classads/classad-builtin-functions of the HTCondor manual; where it is silent or wrong, what the
reference does.
"""

if __name__ != "poolbook.domain.classad.functions":
    raise ImportError(f"import this folder as poolbook.domain.classad.functions, not as {__name__}")

from typing import TYPE_CHECKING, Any

from ..tree import Call, Evaluator
from ..values import ERROR
from . import contexts, environments, lists, numbers, patterns, stringlists, strings, times, types
from .registry import FUNCTIONS, Function, Needs

if TYPE_CHECKING:
    from ..ad import ClassAd
    from ..scalar import Environment

__all__ = ["FUNCTIONS", "Function", "Needs", "bind"]

_MODULES = (contexts, environments, lists, numbers, patterns, stringlists, strings, times, types)


def bind(node: Call, arguments: list[Evaluator]) -> Evaluator:
    """The evaluator of a call. A name that is no built-in function's may be an embedder's, in the context."""
    function = FUNCTIONS.get(node.key)
    if function is None:
        key = node.key

        def own(env: "Environment", ad: "ClassAd | None") -> Any:
            body = env.context.functions.get(key)
            return ERROR if body is None else _own(body, [argument(env, ad) for argument in arguments], ad)

        return own
    if not function.least <= len(arguments) <= function.most:
        return lambda env, ad: ERROR
    if function.lazy is not None:
        body = function.lazy
        return lambda env, ad: body(env, ad, arguments, node)
    compute = function.eager
    assert compute is not None
    if not arguments:
        return lambda env, ad: compute(env, ad, [])
    if len(arguments) == 1:
        (only,) = arguments
        return lambda env, ad: compute(env, ad, [only(env, ad)])
    if len(arguments) == 2:
        first, second = arguments
        return lambda env, ad: compute(env, ad, [first(env, ad), second(env, ad)])
    return lambda env, ad: compute(env, ad, [argument(env, ad) for argument in arguments])


def _own(function: Any, values: list[Any], ad: "ClassAd | None") -> Any:
    """Call an embedder's function; what it returns may be any Python value that an ad may hold."""
    from ..ad import to_expression
    from ..scalar import evaluate

    result = function(*values)
    if type(result) in (float, bool):
        return result
    return evaluate(to_expression(result), ad, None, None)
