"""Two loaders over different data that are read in turn: another batch size of one would leave the other behind."""

from __future__ import annotations

import pytest

from tests.scripting.test_refusals import train  # noqa: F401

TWO = "a, b = loader(), DataLoader(data(), batch_size=8, shuffle=True)\n"
FOREVER = "for epoch in range(1000000):\n"
IN_TURN = {
    "zipped": f"""
{TWO}
{FOREVER}
    for (x, y), (u, v) in zip(a, b):
        step(torch.cat([x, u]), torch.cat([y, v]))
""",
    "by two iterators": f"""
def endless(loader):
    while True:
        yield from loader

{TWO}
source, target = iter(a), endless(b)
{FOREVER}
    try:
        x, y = next(source)
    except StopIteration:
        source = iter(a)
        x, y = next(source)
    u, v = next(target)
    step(torch.cat([x, u]), torch.cat([y, v]))
""",
    "with a step on each": f"""
{TWO}
{FOREVER}
    for one, other in zip(a, b):
        step(*one)
        step(*other)
""",
    "made anew": f"""
{FOREVER}
    for (x, y), (u, v) in zip(loader(), DataLoader(data(), batch_size=8, shuffle=True)):
        step(torch.cat([x, u]), torch.cat([y, v]))
""",
}
EVALUATED = f"""
{TWO}
{FOREVER}
    model.train()
    for x, y in a:
        step(x, y)
    model.eval()
    {{how}}
        for x, y in b:
            model(x)
"""
ALONE = {
    "evaluated": EVALUATED.format(how="with torch.no_grad():"),
    "evaluated with gradients": EVALUATED.format(how="if True:"),
    "evaluated on one batch after each": EVALUATED.replace("in a:", "in itertools.islice(a, 1):").format(
        how="with torch.no_grad():"
    ),
    "looked at": f"""
{TWO}
x, y = next(iter(b))
{FOREVER}
    for x, y in a:
        step(x, y)
""",
    "zipped with itself": f"""
a = loader()
{FOREVER}
    for (x, y), (u, v) in zip(a, a):
        step(torch.cat([x, u]), torch.cat([y, v]))
""",
}


@pytest.mark.parametrize("name", IN_TURN)
def test_the_batch_size_of_two_loaders_that_are_read_in_turn_stays(real, train, name):  # noqa: F811
    script = train(IN_TURN[name])
    facts = real.probe(script, unmodified=True)
    line = next(number for number, text in enumerate(script.read_text().splitlines(), 1) if "batch_size=8" in text)
    assert facts.fixed_batch is not None
    assert f"the loader of train.py:{line} is read in turn with that of train.py:" in facts.fixed_batch
    assert f"in turn with the loader of train.py:{line}" in facts.step


@pytest.mark.parametrize("name", ALONE)
def test_a_loader_that_is_read_now_and_then_leaves_the_batch_size_free(real, train, name):  # noqa: F811
    facts = real.probe(train("import itertools\n" + ALONE[name]), unmodified=True)
    assert facts.script.loader == 0
    assert (facts.script.beside, facts.fixed_batch) == ("", None)
