"""Formats messages by `--format TEMPLATE`, such as `{topic} {queue_offset} {body:text}`.

A template names the schema's fields in braces. A field may name its format after a colon; by default it is written as
its JSON form, without quotes. Nothing is evaluated: a name is in the table of fields or refused. Values are escaped for
terminals, the template's own text is not.
"""

from __future__ import annotations

import binascii
import string
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from flintmq.cli.message_lines import json_line, json_member, line, properties_json
from flintmq.cli.text import iso, printable, printable_bytes, shorten_text
from flintmq.errors import UsageError
from flintmq.message import COLUMNS

if TYPE_CHECKING:
    from flintmq.message import StoredMessage

_TIMES = ("born_timestamp", "store_timestamp")
_BODY: dict[str, Callable[[bytes], str]] = {
    "text": printable_bytes,
    "base64": lambda body: binascii.b2a_base64(body, newline=False).decode("ascii"),
    "hex": lambda body: body.hex(),
    "length": lambda body: str(len(body)),
}
_BROKER_CHARS = 40
_ESCAPES = (("\\t", "\t"), ("\\n", "\n"))

Part = Callable[["StoredMessage", bytes], str]


def message_writer(template: str | None, as_json: bool, **member: str) -> Part:
    """Return the function that formats a message: as JSON, by a template, or for people.

    `member`: the message's store among several (Member.words): its broker and its path are shown too.
    """
    if template is None:
        if member:
            return _of_member(as_json, **member)
        return json_line if as_json else line
    if as_json:
        raise UsageError("--format and --json exclude each other; --json always prints the whole schema")
    return compile_template(template, member)


def _of_member(as_json: bool, broker: str, store: str) -> Part:
    if as_json:
        end = json_member(broker, store)
        return lambda message, body: json_line(message, body)[:-1] + end
    begin = f"{shorten_text(printable(broker), _BROKER_CHARS)}  "
    return lambda message, body: begin + line(message, body)


def compile_template(template: str, constants: Mapping[str, str] = {}) -> Part:
    """Return the function that formats a message, with the body to show, by a template.

    Args:
        template: text with fields in braces; `{{` and `}}` are literal braces, `\\t` and `\\n` tab and line end. A
            field is a name of the schema, and may have a format: `{body:text}` (the default), `{body:base64}`,
            `{body:hex}`, `{body:length}`, `{store_timestamp:iso}`, `{properties:NAME}` for one property.
        constants: more fields, the same for each message.

    Raises:
        UsageError: a brace without its partner, a name that is no field, or a format that the field does not have.
    """
    for written, meant in _ESCAPES:
        template = template.replace(written, meant)
    try:
        pieces = list(string.Formatter().parse(template))
    except ValueError as error:
        raise UsageError(f"--format: {str(error).lower()}; write a brace as {{{{ or }}}}") from None
    parts: list[Part] = []
    for text, field, form, conversion in pieces:
        if text:
            parts.append(_constant(text))
        if field is not None:
            if field in constants and not form and not conversion:
                parts.append(_constant(printable(constants[field])))
            else:
                parts.append(_field(field, form or "", conversion))
    return lambda message, body: "".join([part(message, body) for part in parts])


def _constant(text: str) -> Part:
    return lambda message, body: text


def _field(name: str, form: str, conversion: str | None) -> Part:
    if name not in COLUMNS or conversion:
        raise UsageError(f"--format: {{{shorten_text(name, 40)}}} is not a field; there are {', '.join(COLUMNS)}")
    if name == "body":
        if form and form not in _BODY:
            raise _no_form(name, form, _BODY)
        show = _BODY[form or "text"]
        return lambda message, body: show(body)
    if name == "properties":
        if form:
            return lambda message, body: printable(message.properties.get(form, ""))
        return lambda message, body: properties_json(message.properties)
    if name in _TIMES and form == "iso":
        return lambda message, body: iso(getattr(message, name))
    if form:
        raise _no_form(name, form, ("iso",) if name in _TIMES else ())
    return lambda message, body: _plain(getattr(message, name))


def _plain(value: object) -> str:
    return "" if value is None else printable(str(value))


def _no_form(name: str, form: str, known: object) -> UsageError:
    forms = ", ".join(f"{{{name}:{form}}}" for form in known) if known else f"{{{name}}} alone"  # type: ignore[attr-defined]
    return UsageError(f"--format: {{{name}:{shorten_text(form, 40)}}} is not known; there is {forms}")
