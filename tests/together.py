"""One test of many cases: each is checked, and all that fail are told. A test of its own would cost each some 3 ms."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import pytest

_FAILURES = (Exception, pytest.fail.Exception)


def together(names: str | tuple[str, ...], cases: Iterable[Any]) -> Callable[..., Any]:
    """Stand for ``pytest.mark.parametrize`` where cases are many and small, and share what other fixtures give."""
    argument_names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    all_cases = list(cases)

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def all_of_them(**fixtures: Any) -> None:
            assert all_cases
            failures = []
            for case in all_cases:
                values = [case] if len(argument_names) == 1 else case
                try:
                    test(**dict(zip(argument_names, values, strict=True)), **fixtures)
                except _FAILURES as failure:
                    failure.add_note(f"the case: {case!r:.1000}")
                    failures.append(failure)
            if failures:
                raise BaseExceptionGroup(f"{len(failures)} of {len(all_cases)} cases fail", failures)

        signature = inspect.signature(test)
        others = [parameter for name, parameter in signature.parameters.items() if name not in argument_names]
        del all_of_them.__wrapped__
        all_of_them.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return all_of_them

    return decorate
