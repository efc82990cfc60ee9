"""Questions are spread over requests: each has as many as a service takes, and as many are made at once as its provider
allows."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from bulk_pipelines.errors import Failure
from bulk_pipelines.processing.providers.answers import Answer, Serving
from bulk_pipelines.processing.providers.asking import Desk, Fetch
from bulk_pipelines.processing.wikidata import questions
from bulk_pipelines.processing.wikidata.options import Options

Said = Mapping[str, Answer | Failure]


@dataclass
class Asking:
    """The desk, and how questions are spread over its requests."""

    desk: Desk
    options: Options
    serving: Serving
    threads: ThreadPoolExecutor

    def ask(
        self, provider: str, groups: Sequence[Sequence[str]], fetch: Fetch, place: str
    ) -> dict[str, Answer | Failure]:
        """Ask each group by a request of its own, as many at once as the provider allows. When the provider is in
        trouble, the groups that have not begun are not asked."""
        trouble: list[Failure] = []

        def one(group: Sequence[str]) -> dict[str, Answer | Failure]:
            if trouble:
                return dict.fromkeys(group, trouble[0])
            try:
                found = self.desk.ask(provider, group, fetch, place=place, batch=len(group), serving=self.serving)
                return dict(found)
            except Failure as error:
                trouble.append(error)
                return dict.fromkeys(group, error)

        return {question: said for found in self.threads.map(one, groups) for question, said in found.items()}


def groups_of(every: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    return (every[start : start + size] for start in range(0, len(every), size))


def packed(asked: Iterable[str]) -> Iterator[list[str]]:
    """Yield groups of questions whose phrases fit into one search."""
    group: list[str] = []
    for each in asked:
        if group and len(questions.of_together([*group, each])) > questions.LONGEST_SEARCH:
            yield group
            group = []
        group.append(each)
    if group:
        yield group
