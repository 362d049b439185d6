"""The words of a shell text, without a shell: quotes, continuations, comments, variables that the text itself sets.

Nothing is executed, globbed or redirected. What a shell would do beyond that is left open, or refused, by line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from posixpath import normpath

from canserve.recipes.shell_words import Builder, continued
from canserve.recipes.variables import Scope, expanded, reference
from canserve.subjects.recipe import Refused, Said

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=")
_OPENERS = frozenset({"if", "for", "while", "until", "case"})
_CLOSERS = frozenset({"fi", "done", "esac"})
_KEYWORDS = _OPENERS | _CLOSERS | {"then", "else", "elif", "do", "!", "{", "}", "time", "function"}
CHANGES = frozenset({"source", ".", "set"})
"""Commands after which words may mean something else."""
_WRITERS = frozenset({"cat", "tee"})
_ALL = frozenset({"allexport"})
_DECLARES = frozenset({"export", "declare", "typeset", "local", "readonly"})
_PROMPT = re.compile(r"^[ \t]*(?:[\w.-]+@[\w.-]+:[^\n$#]{0,80})?\$[ \t]+", re.MULTILINE)
_FENCE = re.compile(r"^[ \t]*(```|~~~)[^\n]*$", re.MULTILINE)
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)([A-Za-z_][A-Za-z0-9_]*)\1")
_WRITES = re.compile(r">>?[ \t]*([^\s|;&<>]+)|\btee[ \t]+([^\s|;&<>-]+)")
_WHOLE_ARRAY = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\[[@*]\]\}|(@)|\{(@)\})")
_SPOILED = re.compile(r"\\[ \t]+(?=\n)")
_BLANK = " \t"
_ENDS = ";&|()\n"


@dataclass(frozen=True, slots=True)
class Simple:
    """One simple command: words before the next separator."""

    words: tuple[Said, ...]
    assigned: Mapping[str, Said]
    """Assignments in front of it."""
    line: int
    certain: bool = True
    """Whether it is carried out whatever the commands before it answer."""


def simple_commands(text: str, line: int, scope: Scope, lined: bool = True) -> Iterator[Simple]:
    """All simple commands of a text that begins on ``line``. ``lined``: its lines are those of the file.

    What one of them does to the scope (``source``) counts for those behind it.
    """
    text = continued(_FENCE.sub("", text.replace("\r\n", "\n")))
    return _Reader(text, line, scope, lined).commands()


def split(text: str, line: int, scope: Scope) -> tuple[Said, ...]:
    """The words of one command line that no shell reads: quotes count, separators and variables do not."""
    reader = _Reader(text.replace("\n", " "), line, scope, lined=False)
    return tuple(reader.plain_words())


class _Reader:
    """Goes through a text once."""

    def __init__(self, text: str, line: int, scope: Scope, lined: bool) -> None:
        self._text = text
        self._at = 0
        self._line = line
        self._lined = lined
        self._scope = scope
        self._depth = 0
        """How many conditions and loops it is in."""
        self._target = self._here = ""
        """Where the command that is read writes to, and what it is given in place."""
        self._after = self._before = "\n"
        """The separator after, and before, the command that is read."""

    def plain_words(self) -> Iterator[Said]:
        """Words by quotes alone."""
        while self._at < len(self._text):
            if self._text[self._at].isspace():
                self._at += 1
                continue
            line = self._line
            for word in self._word(full=False):
                self._scope.take(line)
                yield Said(word, line)

    def commands(self) -> Iterator[Simple]:
        """Simple commands; one whose first word is a flag goes on with the one on the line above."""
        before: Simple | None = None
        while self._at < len(self._text):
            after = self._before = self._after
            one = self._settled(self._simple())
            if one is None:
                continue
            if before is not None and after == "\n" and one.words and one.words[0].value.startswith("-"):
                self._scope.notes.append(
                    f"line {one.line}: a shell would begin a new command here: above it a backslash is missing, blanks "
                    "follow it, or a comment stands between"
                )
                before = Simple((*before.words, *one.words), before.assigned, before.line)
                continue
            if before is not None:
                yield before
            before = one
            if one.words and one.words[0].value in CHANGES:
                yield one
                before = None
        if before is not None:
            yield before

    def _simple(self) -> list[Said]:
        """Words up to the next separator, which is remembered."""
        words: list[Said] = []
        self._target = self._here = ""
        if self._after == "\n" and (prompt := _PROMPT.match(self._text, self._at)):
            self._at = prompt.end()
        while self._at < len(self._text):
            self._blank()
            if self._at >= len(self._text):
                break
            sign = self._text[self._at]
            if sign == "#":
                self._comment()
            elif sign in _ENDS:
                self._end(sign)
                break
            elif sign in "<>":
                self._redirection(words)
            else:
                line = self._line
                for word in self._word(full=True):
                    self._scope.take(line)
                    words.append(Said(word, line))
        else:
            self._after = "\n"
        return words

    def _end(self, sign: str) -> None:
        self._after = sign
        self._step()
        while self._at < len(self._text) and sign in "&|" and self._text[self._at] in "&|":
            self._after += self._text[self._at]
            self._step()

    def _step(self) -> None:
        if self._text[self._at] == "\n" and self._lined:
            self._line += 1
        self._at += 1

    def _blank(self) -> None:
        while self._at < len(self._text):
            if self._text[self._at] in _BLANK:
                self._at += 1
            elif self._text.startswith("\\\n", self._at):
                self._step()
                self._step()
            elif found := _SPOILED.match(self._text, self._at):
                self._scope.notes.append(
                    f"line {self._line}: blanks follow the backslash, so that it continues no line"
                )
                self._at = found.end()
                self._step()
            else:
                return

    def _comment(self) -> None:
        end = self._text.find("\n", self._at)
        self._at = len(self._text) if end < 0 else end

    def _redirection(self, words: list[Said]) -> None:
        """Not followed; a document that is written in place is passed over."""
        if words and words[-1].value.isdecimal() and self._text[self._at - 1].isdecimal():
            words.pop()
        if found := _HEREDOC.match(self._text, self._at):
            self._document(found)
            return
        writes = self._text[self._at] == ">"
        while self._at < len(self._text) and self._text[self._at] in "<>&|":
            self._at += 1
        self._blank()
        if self._at < len(self._text) and self._text[self._at] not in _ENDS:
            named = self._word(full=True)
            self._target = " ".join(named) if writes else self._target

    def _document(self, found: re.Match[str]) -> None:
        """A text that is written in place. What stands behind its mark on the same line belongs to the command."""
        end = re.compile(rf"^\t*{found[2]}[ \t]*$", re.MULTILINE).search(self._text, found.end())
        first = self._text.find("\n", found.end())
        stop = end.end() if end else len(self._text)
        if end is None or first < 0 or end.start() <= first:
            behind, body = "", ""
        else:
            behind, body = self._text[found.end() : first], self._text[first + 1 : end.start()]
        if to := _WRITES.search(behind):
            self._target = (to[1] or to[2]).strip("\"'")
        self._here = body if found[1] else expanded(body, self._line, self._scope)
        becomes = f"becomes {self._target[:80]}, and is not executed" if self._target else "is not read"
        self._scope.notes.append(f"line {self._line}: text that is written in place ({found[0]}) {becomes}")
        while self._at < stop:
            self._step()

    def _word(self, full: bool) -> list[str]:
        """The next word; several or none where a variable without quotes holds blanks. Always moves on."""
        builder = Builder()
        start, line = self._at, self._line
        while self._at < len(self._text):
            sign = self._text[self._at]
            if sign.isspace() or (full and sign in ";&|()<>"):
                if not (full and sign == "(" and self._array(builder)):
                    break
                continue
            self._piece(sign, builder, full)
        if self._at == start:
            self._step()
        if full and builder.pattern:
            self._scope.leave(
                "".join(builder.fields()), line, "a pattern that a shell would replace by names of files"
            )
        return builder.fields()

    def _piece(self, sign: str, builder: Builder, full: bool) -> None:
        if sign == "'":
            self._single(builder)
        elif sign == '"':
            self._double(builder, full)
        elif sign == "\\":
            self._escape(builder)
        elif sign == "$" and full:
            self._dollar(builder, quoted=False)
        elif sign == "`" and full:
            self._backtick(builder)
        else:
            builder.pattern |= full and sign in "*?"
            builder.add(sign)
            self._step()

    def _escape(self, builder: Builder) -> None:
        self._step()
        if self._at < len(self._text):
            if self._text[self._at] != "\n":
                builder.add(self._text[self._at])
            self._step()

    def _single(self, builder: Builder) -> None:
        end = self._text.find("'", self._at + 1)
        line = self._line
        if end < 0:
            self._scope.refused.append(Refused("'", line, "the quote is never closed"))
            end = len(self._text)
        builder.add(self._text[self._at + 1 : end])
        self._line += self._text.count("\n", self._at, end) if self._lined else 0
        self._at = min(end + 1, len(self._text))

    def _double(self, builder: Builder, full: bool) -> None:
        line = self._line
        self._step()
        builder.add("")
        while self._at < len(self._text):
            sign = self._text[self._at]
            if sign == '"':
                self._at += 1
                return
            if sign == "\\" and self._text[self._at + 1 : self._at + 2] in ("$", "`", '"', "\\", "\n"):
                self._escape(builder)
            elif sign == "$" and full:
                self._dollar(builder, quoted=True)
            elif sign == "`" and full:
                self._backtick(builder)
            else:
                builder.add(sign)
                self._step()
        self._scope.refused.append(Refused('"', line, "the quote is never closed"))

    def _dollar(self, builder: Builder, quoted: bool) -> None:
        array = _WHOLE_ARRAY.match(self._text, self._at)
        if array and (name := array[1] or array[2] or array[3]) in self._scope.arrays:
            self._at = array.end()
            self._scope.grow(sum(len(word) + 1 for word in self._scope.arrays[name]), self._line)
            builder.several(self._scope.arrays[name])
            return
        if not quoted and self._text.startswith("$'", self._at):
            self._at += 1
            return
        value, end = reference(self._text, self._at, self._line, self._scope)
        raw = self._text[self._at : end]
        self._line += raw.count("\n") if self._lined else 0
        self._at = end
        if quoted or value == raw:
            builder.add(value)
        else:
            builder.split(value)

    def _backtick(self, builder: Builder) -> None:
        end = self._text.find("`", self._at + 1)
        stop = len(self._text) if end < 0 else end + 1
        whole = self._text[self._at : stop]
        self._scope.leave(whole, self._line, "a command whose output is not known: nothing is executed")
        self._line += whole.count("\n") if self._lined else 0
        builder.add(whole)
        self._at = stop

    def _array(self, builder: Builder) -> bool:
        """``NAME=( words )``: remembered, and no word itself."""
        found = ASSIGNMENT.fullmatch("".join(builder.fields()))
        if found is None:
            return False
        self._step()
        words: list[str] = []
        while self._at < len(self._text) and self._text[self._at] != ")":
            if self._text[self._at].isspace():
                self._step()
            elif self._text[self._at] == "#":
                self._comment()
            elif self._text.startswith("\\\n", self._at):
                self._blank()
            else:
                self._scope.take(self._line)
                words += self._word(full=True)
        self._at = min(self._at + 1, len(self._text))
        before = self._scope.arrays.get(found[1], []) if found[2] else []
        if self._depth or self._before in ("&&", "||"):
            self._scope.arrays.pop(found[1], None)
            self._scope.doubtful.add(found[1])
        else:
            self._scope.arrays[found[1]] = before + words
        builder.clear()
        return True

    def _settled(self, words: list[Said]) -> Simple | None:
        """Without keywords and assignments; None: nothing is left that could start something."""
        while words and words[0].value in _KEYWORDS:
            keyword = words.pop(0).value
            self._depth += (keyword in _OPENERS) - (keyword in _CLOSERS)
        assigned: dict[str, Said] = {}
        rest = list(words)
        declares = bool(rest) and rest[0].value in _DECLARES
        if declares:
            rest = [word for word in rest[1:] if not word.value.startswith("-")]
        while rest and (found := ASSIGNMENT.match(rest[0].value)):
            first = rest.pop(0)
            assigned[found[1]] = Said(first.value[found.end() :], first.line)
        if not words:
            return None
        if self._here and words[0].value in _WRITERS:
            self._target = self._target or (words[-1].value if words[0].value == "tee" else "")
            self._scope.written[normpath(self._target)] = self._here
        if words[0].value == "export":  # a name alone: what it was set to before
            known = self._scope.variables
            assigned |= {w.value: Said(known[w.value], w.line) for w in rest if w.value in known}
        if rest and rest[0].value == "shift":
            self._scope.shift()
        certain = self._depth <= 0 and self._before not in ("&&", "||")
        if rest and rest[0].value == "set":
            self._set([word.value for word in rest[1:]])
        if rest and not declares:
            return Simple(tuple(rest), assigned, words[0].line, certain)
        for name, value in assigned.items():
            if certain:
                self._scope.variables[name] = value.value
            else:  # set under a condition: nobody knows which value it has
                self._scope.variables.pop(name, None)
                self._scope.doubtful.add(name)
        exported = declares or self._scope.exports
        return Simple((), assigned, words[0].line, certain) if exported else None

    def _set(self, words: list[str]) -> None:
        """``set -a``, ``set +a``, ``set -o allexport``, ``set -euao pipefail``."""
        for number, word in enumerate(words):
            flags = word[:1] in ("-", "+") and not word.startswith("--")
            named = flags and word.endswith("o") and set(words[number + 1 : number + 2]) & _ALL
            if flags and ("a" in word[1:] or named):
                self._scope.exports = word[0] == "-"
