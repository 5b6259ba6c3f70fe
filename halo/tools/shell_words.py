"""Words and simple commands of a shell, put together piece by piece. Pure."""

from typing import NamedTuple

# Words that stand before a command, or behind it, and have no part in it.
_AROUND = frozenset({"if", "then", "elif", "else", "fi", "while", "until", "do", "done", "{", "}", "!"})
# Words after which the line is not looked through.
_STRANGE = frozenset({"case", "esac", "select", "function", "coproc"})


class UnsureError(Exception):
    """The line holds what is not known here."""


class Word(NamedTuple):
    """A word without its quotes: `text` is all of it if it is `whole`, else its beginning.

    `bare`: nothing of it was quoted. `one`: whatever it becomes, it stays one word.
    """

    text: str
    whole: bool = True
    bare: bool = True
    one: bool = True


class WordParts:
    """A word in the making."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.whole, self.bare, self.one = True, True, True

    def add(self, text: str, *, quoted: bool) -> None:
        """Take characters that stand for themselves."""
        self.bare = self.bare and not quoted
        if self.whole:
            self.parts.append(text)

    def open(self, *, quoted: bool, one: bool = False) -> None:
        """Take something that only a shell knows."""
        self.whole = self.bare = False
        self.one = self.one and (quoted or one)

    def word(self) -> Word:
        """Return it as far as it is known."""
        return Word("".join(self.parts), self.whole, self.bare, self.one)


class CommandParts:
    """A simple command in the making."""

    def __init__(self, found: list[tuple[Word, ...]]) -> None:
        self._found = found
        self.drop()

    def drop(self) -> None:
        """Begin anew."""
        self.words: list[Word] = []
        self._splits: list[int] = []
        self._timed = False

    def split(self) -> None:
        """Note that another command may begin here."""
        self._splits.append(len(self.words))

    def add(self, word: Word) -> None:
        """Take a word; those that stand around commands are left out."""
        said = word.text if word.bare and word.whole else None
        if not self.words:
            if said in _STRANGE:
                raise UnsureError
            if said in _AROUND or (self._timed and said in ("-p", "--")):
                return
            if said == "time":
                self._timed = True
                return
        if said == "do" and len(self.words) == 2 and self.words[0] == Word("for"):
            self.drop()  # `for x do`
            return
        self.words.append(word)

    def finish(self) -> None:
        """Hand the command over, and what would be one if another began in it."""
        for at in (0, *self._splits):
            if self.words[at:]:
                self._found.append(tuple(self.words[at:]))
        self.drop()
