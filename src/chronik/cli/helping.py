"""How help is laid out: paragraphs fill the width of the terminal, whatever width their source was written at.

Lines that begin with blanks are examples and stay as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cyclopts.help import HelpPanel
    from rich.console import Console, ConsoleOptions


class Reflowing:
    """Cyclopts' own layout, with paragraphs joined first."""

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        from cyclopts.help import DefaultFormatter

        for entry in panel.entries:
            _reflow(entry.description)
        DefaultFormatter()(console, options, panel)

    def render_usage(self, console: Console, options: ConsoleOptions, usage: Any) -> None:
        from cyclopts.help import DefaultFormatter

        DefaultFormatter().render_usage(console, options, usage)

    def render_description(self, console: Console, options: ConsoleOptions, description: Any) -> None:
        from cyclopts.help import DefaultFormatter

        _reflow(description)
        DefaultFormatter().render_description(console, options, description)


def _reflow(rendered: Any) -> None:
    from cyclopts.help import InlineText
    from rich.console import Group
    from rich.text import Text

    match rendered:
        case Text():
            rendered.plain = joined(rendered.plain)
        case InlineText():
            _reflow(rendered.primary_renderable)
        case Group():
            for each in rendered.renderables:
                _reflow(each)


def joined(text: str) -> str:
    """Consecutive lines without indentation become one."""
    lines: list[str] = []
    is_open = False  # the line before is part of a paragraph that may go on
    for line in text.split("\n"):
        is_prose = bool(line) and not line[0].isspace()
        if is_prose and is_open:
            lines[-1] += f" {line}"
        else:
            lines.append(line)
        is_open = is_prose
    return "\n".join(lines)
