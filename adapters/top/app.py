"""The terminal application of ``poolbook top``, written with textual."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import tzinfo
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Input, Static

from ...domain.errors import PoolbookError
from ..machine.host import user_name
from ..overview.effects import Effect, effect
from ..overview.records import JOB_STYLES
from ..runtime.pool_client import change_jobs
from ..runtime.queries import Queries
from ..runtime.requests import RequestRefused
from ..stores.fast_head import head_of
from .places import BAR, NUMBERS, PLACES, PlaceView, Row, explanation, place_view, time_text

if TYPE_CHECKING:
    from textual.timer import Timer

REFRESH_S: Final = 2.0  #: seconds between two looks at the log's head
_MINUTE, _HOUR = 60_000_000, 3_600_000_000
_KEYS: Final = {
    "1 ... 5": "the places: Pool, Jobs, Shares, Machines, Log",
    "j, k": "the next or the previous row",
    "Enter": "explain the row's job, cluster or slot",
    "/": "search: show only rows that contain a text",
    "[ and ]": "go back or forward by a minute; { and }: by an hour",
    "n": "return to now",
    "h, l, x, v": "hold, release, remove or vacate the row's jobs, after a confirmation",
    "?": "list the keys",
    "q": "quit",
}
_COLOURS: Final = {style.letter: style.colour for style in JOB_STYLES.values()}


class TextScreen(ModalScreen[None]):
    """Shows lines of text until a key is pressed."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape,enter,q", "dismiss", "Close")]

    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self.lines = lines

    def compose(self) -> ComposeResult:
        yield VerticalScroll(Static("\n".join(self.lines), markup=False), classes="box")


class ConfirmScreen(ModalScreen[bool]):
    """Asks once whether to perform an action."""

    BINDINGS: ClassVar[list[BindingType]] = [("y", "dismiss(True)", "Yes"), ("n,escape,q", "dismiss(False)", "No")]

    def __init__(self, sentence: str, command: str) -> None:
        super().__init__()
        self.sentence, self.command = sentence, command

    def compose(self) -> ComposeResult:
        text = f"{self.sentence}\n\nCommand: {self.command}\n\ny: do it    n: do nothing"
        yield Static(text, markup=False, classes="box")


class PoolTop(App[None]):
    """Shows the log at a URL, live or as of a time in microseconds.

    :param log_option: the options that select the log in commands
    """

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #time { text-style: bold; } #time.past { color: black; background: #E69F00; }
    #search { display: none; } #search.shown { display: block; }
    .box { width: 90%; height: auto; max-height: 90%; border: round; padding: 1 2; background: $surface; }
    TextScreen, ConfirmScreen { align: center middle; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(number), f"place('{place}')", place) for number, place in enumerate(PLACES, 1)),
        Binding("j", "move(1)", "Next", show=False), Binding("k", "move(-1)", "Previous", show=False),
        Binding("slash", "search", "Search"), Binding("question_mark", "keys", "Keys"),
        Binding("left_square_bracket", f"step({-_MINUTE})", "Earlier"), Binding("n", "now", "Now"),
        Binding("right_square_bracket", f"step({_MINUTE})", "Later", show=False),
        Binding("left_curly_bracket", f"step({-_HOUR})", "An hour earlier", show=False),
        Binding("right_curly_bracket", f"step({_HOUR})", "An hour later", show=False),
        Binding("h", "plan('hold')", "Hold"), Binding("l", "plan('release')", "Release"),
        Binding("x", "plan('remove')", "Remove"), Binding("v", "plan('vacate')", "Vacate"),
        Binding("q", "quit", "Quit"),
    ]  # fmt: skip

    def __init__(self, url: str, name: str, zone: tzinfo, at: int | None = None, log_option: str = "") -> None:
        super().__init__()
        self.url, self.name_of_log, self.zone, self.log_option = url, name, zone, log_option
        self.at = at
        self.place = "Pool"
        self.view = PlaceView([], (), [])
        self.rows: list[Row] = []
        self._head: object = None
        self._timer: Timer | None = None

    def compose(self) -> ComposeResult:
        yield Static(id="time", markup=False)
        yield Static(id="lines", markup=False)
        yield Input(placeholder="show only rows that contain ...; Enter returns to the table", id="search")
        yield DataTable(cursor_type="row", id="rows")
        yield Footer()

    def on_mount(self) -> None:
        self.query_one(DataTable).focus()
        self.read()
        self._timer = self.set_interval(REFRESH_S, partial(self.read, only_changes=True))

    # Reading, in a thread

    def read(self, only_changes: bool = False) -> None:
        """Read what is shown again; with `only_changes`, only if the present is shown and the log has changed."""
        if not (only_changes and self.at is not None):
            self.run_worker(partial(self._read, only_changes, self.place, self.at), thread=True, exclusive=True)

    def _read(self, only_changes: bool, place: str, at: int | None) -> None:
        try:
            head = head_of(self.url)
            if only_changes and head == self._head:
                return
            with Queries(self.url, at=at) as queries:
                view = place_view(place, queries, self.zone)
            self._head = head
        except PoolbookError as error:
            view = PlaceView([str(error)], (), [])
        self.call_from_thread(self.show, place, at, view)

    def show(self, place: str, at: int | None, view: PlaceView) -> None:
        """Show what was read, unless the user has gone elsewhere."""
        if (place, at) != (self.place, self.at):
            return
        self.view = view
        moment = self.query_one("#time", Static)
        moment.update(f"{self.name_of_log}  |  {place}  |  {time_text(at, time.time_ns() // 1000, self.zone)}")
        moment.set_class(at is not None, "past")
        self.query_one("#lines", Static).update("\n".join(view.lines))
        self.show_rows()

    def show_rows(self) -> None:
        table, cursor = self.query_one(DataTable), self.query_one(DataTable).cursor_row
        self.rows = self.view.matching(self.query_one(Input).value)
        table.clear(columns=True)
        table.add_columns(*self.view.headings)
        for row in self.rows:
            table.add_row(*map(_cell, self.view.headings, row.cells))
        table.move_cursor(row=min(cursor, max(0, len(self.rows) - 1)))

    # Keys

    def action_place(self, place: str) -> None:
        self.place = place
        self.read()

    def action_move(self, rows: int) -> None:
        table = self.query_one(DataTable)
        table.move_cursor(row=table.cursor_row + rows)

    def action_step(self, step: int) -> None:
        now = time.time_ns() // 1000
        with Queries(self.url) as queries:
            last = queries.views.at
        self.at = min(now, last if self.at is None else self.at) + step
        if self.at > max(now, last):
            self.at = None
        self.read()

    def action_now(self) -> None:
        self.at = None
        self.read()

    def action_search(self) -> None:
        search = self.query_one(Input)
        search.add_class("shown")
        search.focus()

    def on_input_changed(self) -> None:
        self.show_rows()

    def on_input_submitted(self) -> None:
        self.query_one(Input).set_class(bool(self.query_one(Input).value), "shown")
        self.query_one(DataTable).focus()

    def action_keys(self) -> None:
        self.push_screen(TextScreen([f"{key:<12} {meaning}" for key, meaning in _KEYS.items()]))

    def on_data_table_row_selected(self) -> None:
        key = self._key()
        if key:
            self._query(lambda queries: self.push_screen(TextScreen(explanation(queries, key, self.zone))))

    # Actions

    def action_plan(self, action: str) -> None:
        key = self._key()
        if self.at is not None:
            self.notify("Actions change the present: press n to return to now.", severity="warning")
        elif not key.replace(".", "").isdecimal():
            self.notify("Select a row with a job or cluster, such as one of Jobs.", severity="warning")
        else:
            self._query(partial(self._confirm, action, key))

    def _confirm(self, action: str, key: str, queries: Queries) -> None:
        if queries.imported:
            self.notify("This log was imported: use the commands of that pool.", severity="warning")
            return
        planned = effect(queries, action, "job" if "." in key else "cluster", key, user_name())
        command = planned.command + self.log_option
        if planned.allowed:
            screen = ConfirmScreen(planned.sentence, command)
            self.push_screen(screen, lambda confirmed: self._start(planned, command) if confirmed else None)
        else:
            text = f"{action.capitalize()} has no effect on {key}: the jobs have another status or owner."
            self.notify(text, severity="warning")

    def _start(self, planned: Effect, command: str) -> None:
        self.run_worker(partial(self._perform, planned, command), thread=True)

    def _perform(self, planned: Effect, command: str) -> None:
        try:
            results = [result.result for result in change_jobs(self.url, {"kind": planned.request, **planned.body})]
        except (PoolbookError, RequestRefused) as error:
            results = [str(error)]
        problems = sorted({result for result in results if result != "done"})
        text = "; ".join([command, *(["done"] if "done" in results else []), *problems])
        self.call_from_thread(self.notify, text, severity="warning" if problems else "information")
        self.call_from_thread(self.read)

    def _key(self) -> str:
        row = self.query_one(DataTable).cursor_row
        return self.rows[row].key if row < len(self.rows) else ""

    def _query(self, ask: Callable[[Queries], object]) -> None:
        try:
            with Queries(self.url, at=self.at) as queries:
                ask(queries)
        except PoolbookError as error:
            self.notify(str(error), severity="error")


def _cell(heading: str, content: str) -> Text:
    if heading != BAR:
        return Text(content, justify="right" if heading in NUMBERS else "left")
    return Text.assemble(*((letter, _COLOURS.get(letter, "")) for letter in content))
