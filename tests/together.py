"""One test for many cases: it checks each case and reports all failures. Separate tests would cost some 3 ms each."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import pytest

_FAILURES = (Exception, pytest.fail.Exception)


def together(names: str | tuple[str, ...], cases: Iterable[Any]) -> Callable[..., Any]:
    """Use this instead of ``pytest.mark.parametrize`` for many small cases that share the other fixtures."""
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
