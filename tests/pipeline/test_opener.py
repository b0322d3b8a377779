from tour_pyserini.opening import Opener


def test_things_are_opened_once_for_the_same_arguments():
    made = []

    def make(*args, **options):
        made.append((args, options))
        return object()

    opener = Opener()
    first = opener.open(make, "a", depth=1)
    assert opener.open(make, "a", depth=1) is first
    assert opener.open(make, "a", depth=2) is not first
    inside = opener.open(make, first)
    assert opener.open(make, first) is inside
    assert opener.open(make, object()) is not opener.open(make, object())
    assert len(made) == 5
