"""The hook adds nothing to prompts that need no memory, and still answers questions about the sample conversations."""

import json
from pathlib import Path

import pytest

from convmemory.core.acting import acting_for
from convmemory.push.hook import MIN_RELEVANCE, TOP_K, query_of
from memory.recall import recall
from tests.retrieval.conftest import Archive

MOST_FALSE_FIRES = 0.02
LEAST_ANSWERED = 0.33
FOLDER = Path(__file__).parent
NO_MEMORY = """\
fix the typo in the readme please
rename this variable to something clearer
run the tests and show me the failures
add a docstring to every function in this file
what does this regular expression match
write a haiku about autumn leaves
convert this json file to yaml for me
please format the code with black
commit the changes with a good message
explain what a monad is in simple terms
generate ten random user names for testing
translate the following sentence into french please
make the button blue and a bit larger
remove all the unused imports from the module
how many planets does the solar system have
create an empty package.json in this folder
list all files larger than ten megabytes
write a unit test for the parse function
open the file and read the first lines
thanks, that looks good, please go on
yes, do it the way you suggested
no, revert that and try something simpler
can you make this loop run faster
sort the list by date in descending order
why is the sky blue during the day
show me the git log of last week
bump the version number to the next minor
please write the changelog entry for this change
check whether the server is running on port eight thousand
add type hints to all public functions here
summarise this pull request in two sentences
split this function into three smaller ones
what is the capital city of portugal
add a license header to each source file
update all dependencies to their latest versions
delete the branch after it has been merged
print the current working directory and its size
replace tabs with four spaces in this file
draw an ascii diagram of the architecture
write a dockerfile for a simple python app
explain the difference between a list and a tuple
turn this callback code into async await
please use british spelling in all comments
add a dark mode toggle to the page
what time is it in tokyo right now
use a dictionary instead of the long if chain
write a bash script that renames photos by date
increase the timeout to thirty seconds in the config
make the error message friendlier for new users
add an example of usage to the docs
"""


def fires(archive: Archive, prompts: list[str]) -> list[str]:
    """Return the prompts to which the hook adds something, as it asks the recall API."""
    with acting_for(archive.owner.pk):
        return [
            query
            for query in map(query_of, prompts)
            if query and recall(owner=archive.owner, query=query, min_relevance=MIN_RELEVANCE, top_k=TOP_K).answered
        ]


def queries(pattern: str) -> list[str]:
    return [
        json.loads(line)["query"]
        for path in sorted(FOLDER.glob(pattern))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]


@pytest.mark.django_db
def test_hook_is_silent_about_prompts_without_an_answer(archive: Archive) -> None:
    prompts = [*NO_MEMORY.splitlines(), *queries("no_answer.jsonl")]
    fired = fires(archive, prompts)
    print(f"{len(fired)} of {len(prompts)}: {fired}")
    assert len(fired) <= MOST_FALSE_FIRES * len(prompts)


@pytest.mark.django_db
def test_hook_answers_questions_about_the_archive(archive: Archive) -> None:
    asked = [query for query in queries("questions_*.jsonl") if query_of(query)]
    fired = fires(archive, asked)
    print(f"{len(fired)} of {len(asked)}")
    assert len(fired) >= LEAST_ANSWERED * len(asked)
