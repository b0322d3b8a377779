"""Keys with filters: however it is asked, a service finds, counts and names nothing that does not pass."""

import json
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from in_memory_collection import DOCUMENTS, InMemoryCollection
from running_server import running_server

from tour_pyserini.service.app import new_app
from tour_pyserini.service.serving import digest
from tour_pyserini.stores.filters import Filter

FIELDS = {
    f"d{i}": {"tenant": "abc"[i % 3], "year": 2000 + i, **({"secret": i} if i % 3 else {})} for i in range(DOCUMENTS)
}
OF_A = {docid for docid, fields in FIELDS.items() if fields["tenant"] == "a"}
TENANTS = {"the key of a": {"tenant": "a"}, "the key of b": ["d1", "d4"], "the key of none": {"year": 1}}


def named(*answers):
    """The documents that answers name or quote."""
    return set(re.findall(r"\bd\d+\b", " ".join(answer.text + str(answer.headers) for answer in answers)))


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """Asks a service with a key; `collection` is what it serves."""
    collection = InMemoryCollection(fields=FIELDS, judgements=tmp_path_factory.mktemp("tenants") / "judged")
    collection.texts = {docid: f"x only in {docid}" for docid in collection.texts}
    collection.reranker.gate.set()
    keys = {digest(key): Filter.parse(wanted) for key, wanted in TENANTS.items()}
    with TestClient(new_app(collection, keys={**keys, digest("the operator"): None}), "http://127.0.0.1") as client:

        def ask(key, method, path, **content):
            return client.request(method, path, headers={"X-API-Key": key}, **content)

        ask.collection = collection
        yield ask


YEARS = st.integers(1998, 2042)
FILTERS = st.recursive(
    st.one_of(
        st.tuples(st.sampled_from(["gt", "gte", "lt", "lte", "eq"]), YEARS).map(lambda one: {"year": dict([one])}),
        st.lists(st.sampled_from("abcz")).map(lambda some: {"tenant": {"in": some}}),
        st.just({}),
    ),
    lambda parts: st.tuples(st.sampled_from(["and", "or"]), st.lists(parts, max_size=3)).map(lambda one: dict([one])),
    max_leaves=4,
) | st.lists(st.sampled_from([*FIELDS, "unknown"]), max_size=9)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    key=st.sampled_from(list(TENANTS)),
    wanted=st.none() | FILTERS,
    method=st.sampled_from(["tour", "hard", "rerank", "dense", "mixed"]),
    hits=st.integers(1, 50),
)
def test_a_search_shows_what_passes_both_filters(service, key, wanted, method, hits):
    calls = service.collection.reranker.calls
    calls.clear()
    chosen = {"preset": method} if method == "mixed" else {"method": method}
    body = {"query": "a", "hits": hits, "rounds": True, **chosen}
    answer = service(key, "POST", "/search", json={**body, **({} if wanted is None else {"filter": wanted})})
    params = {"query": "ccc", "hits": hits, **chosen} | ({} if wanted is None else {"filter": json.dumps(wanted)})
    stream = service(key, "GET", "/search/stream", params=params)
    theirs = service.collection.searcher(service.collection.request.config).only(TENANTS[key])
    both = theirs if wanted is None else theirs.only(wanted)
    allowed, passing = ({f"d{i}" for i in each.found()} for each in (theirs, both))
    assert answer.status_code == stream.status_code == 200 and passing <= allowed
    assert named(answer, stream) <= passing
    assert {docid for call in calls for text in call for docid in re.findall(r"d\d+", text)} <= passing
    told = answer.json()
    assert len(told["candidates"]) == min(hits, len(passing)) and told["settings"]["documents"] == len(allowed)


DEEP = '{"and": [' * 900 + "{}" + "]}" * 900


@pytest.mark.parametrize(
    ("method", "path", "content"),
    [
        *[("GET", path.format("d1"), {}) for path in ("/documents/{}", "/v1/memory/doc/{}", "/documents//{}")],
        *[("GET", f"/v1/indexes/memory/documents/{docid}", {}) for docid in ("d1", "%64%31")],
        ("GET", "/documents/%64%31", {}),
        ("POST", "/judgements", {"json": {"query": "a", "docid": "d1", "relevance": 1}}),
    ],
)
def test_a_document_of_others_is_one_that_does_not_exist(service, method, path, content):
    hidden = service("the key of a", method, path, **content)
    unknown = json.loads(json.dumps(content).replace("d1", "zz"))
    none = service("the key of a", method, path.replace("d1", "zz").replace("%64%31", "zz"), **unknown)
    assert hidden.status_code == none.status_code == 404 and hidden.text.replace("d1", "zz") == none.text
    assert service("the operator", method, path, **content).status_code == (404 if "//" in path else 200)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        *[({"filter": wanted}, 200) for wanted in ({"or": [{"tenant": "b"}, {}]}, ["d1", "d4"], {"tenant": "b"}, "{}")],
        ({"filter": "id >= 0) or (id >= 0"}, 422),
        ({"filter": '$.tenant == "b"'}, 422),
        ({"filter": {"should": [{"has_id": [1, 4]}]}}, 422),
        ({"filter": DEEP}, 422),
        ({"filter": json.loads(DEEP[: 9 * 30] + "{}" + "]}" * 30)}, 422),
        ({"filter": {"year": "x" * 500}}, 200),
        ({"filter": {"year": [1]}}, 422),
        ({"filter": 7}, 422),
        ({"allowed": None}, 422),
        ({"settings": {"filter": "{}"}}, 422),
        ({"settings": {"within": "{}"}}, 422),
        ({"qid": "d1", "method": "rerank"}, 200),
    ],
)
def test_no_field_of_a_request_looks_past_the_key(service, body, status):
    asked = {"query": "a d1", "hits": 50, **body}
    answer = service("the key of a", "POST", "/search?filter={}&key=the+operator", json=asked)
    assert answer.status_code == status
    assert named(answer) - {"d1"} <= OF_A and not re.search(r"only in d1\b", answer.text)
    if status == 422:
        assert "Traceback" not in answer.text and len(answer.json()["detail"]) < 700
        assert service("the operator", "POST", "/search", json={"query": "a"}).status_code == 200


def test_a_field_of_others_is_as_unknown_as_one_of_nobody(service):
    def answer(key, name):
        return service(key, "POST", "/search", json={"query": "a", "filter": {name: 1}})

    texts = [answer("the key of a", name).text.replace(name, "?") for name in ("secret", "nothing")]
    assert texts[0] == texts[1] and "has the field" in texts[0]
    assert answer("the operator", "secret").status_code == 200


def test_what_is_about_all_documents_is_not_for_a_key_of_some(service):
    for method, path in (("GET", "/metrics"), ("POST", "/reload"), ("GET", "/v1/indexes/memory/status")):
        assert service("the key of a", method, path).status_code == 403
    assert service("the operator", "GET", "/metrics").status_code == 200
    for key, documents in (("the key of a", len(OF_A)), ("the key of b", 2), ("the key of none", 0)):
        assert service(key, "GET", "/about").json()["documents"] == documents
    for key in ("", "the key of", "THE KEY OF A", "the key of ä", "None"):
        assert service(key.encode("latin-1"), "GET", "/about").status_code == 401


def test_judgements_and_example_queries_are_those_of_documents_that_pass(service):
    for docid in ("d0", "d1"):
        body = {"query": f"about {docid}", "docid": docid, "relevance": 2}
        assert service("the operator", "POST", "/judgements", json=body).status_code == 200
    for path in ("/judgements", "/judgements/topics"):
        mine, all_ = (service(key, "GET", path).text for key in ("the key of a", "the operator"))
        assert len(mine.splitlines()) == 1 < len(all_.splitlines()) and "d1" not in mine
    collection = InMemoryCollection(fields=FIELDS)
    collection._topics = {"what others ask": "q1"}
    assert collection.examples(5, None) == ["what others ask"]
    assert collection.examples(5, Filter.parse({"tenant": "a"})) == []  # its documents have no titles


def test_tenants_who_search_together_get_lists_of_their_own(service):
    def ask(number):
        key = list(TENANTS)[number % 3]
        body = {"query": "a" * (1 + number % 7), "hits": 50, "rounds": number % 2 == 0}
        return key, service(key, "POST", "/search", json=body)

    with ThreadPoolExecutor(8) as clients:
        answers = list(clients.map(ask, range(60)))
    allowed = {"the key of a": OF_A, "the key of b": {"d1", "d4"}, "the key of none": set()}
    for key, answer in answers:
        assert named(answer) <= allowed[key] and len(answer.json()["candidates"]) == len(allowed[key])


@pytest.fixture(scope="module")
def served(small, tmp_path_factory):
    """A server with two tenants, and its file of keys."""
    path = tmp_path_factory.mktemp("keys") / "keys"
    path.write_text('operator *\nfirst-tenant  ["d1", "d2", "d3"]\nsecond-tenant ["d4", "d5"]\n')
    with running_server(*small.flags, "--keys", path, cache=small.cache) as server:
        yield server, path


def test_tools_of_language_models_find_what_passes_also_in_a_session_of_others(served, small):
    server, _ = served
    accept, version = {"Accept": "application/json, text/event-stream"}, "2025-03-26"

    def post(key, number, method, params, **headers):
        body = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        return server.client.post("/mcp", json=body, headers={**accept, "X-API-Key": key, **headers})

    client = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
    begun = post("first-tenant", 1, "initialize", client)
    session = {"Mcp-Session-Id": begun.headers.get("mcp-session-id", "none"), "MCP-Protocol-Version": version}

    def tool(key, name, **arguments):
        return post(key, 2, "tools/call", {"name": name, "arguments": arguments}, **session)

    for key, allowed in (("first-tenant", {"d1", "d2", "d3"}), ("second-tenant", {"d4", "d5"})):
        assert named(tool(key, "search", query=small.queries["q1"], k=20)) == allowed
    hidden, own = (tool("second-tenant", "get_document", docid=docid).text for docid in ("d1", "d4"))
    assert "no document" in hidden and small.texts["d4"] in own


def test_keys_are_read_again_with_the_index(served):
    server, path = served

    def documents(key):
        answer = server.client.get("/about", headers={"X-API-Key": key})
        return answer.json().get("documents")

    def reload():
        return server.client.post("/reload", headers={"X-API-Key": "operator"}).status_code

    assert [documents(key) for key in ("first-tenant", "second-tenant", "third-tenant")] == [3, 2, None]
    before = path.read_text()
    for content, status, after in (
        ('operator *\nthird-tenant ["d9"]\n', 200, [None, None, 1]),
        ("operator *\nthird-tenant\n", 503, [None, None, 1]),
        ('operator *\nthird-tenant {"tenant": "a"}\n', 503, [None, None, 1]),
        (before, 200, [3, 2, None]),
    ):
        path.write_text(content)
        assert reload() == status
        assert [documents(key) for key in ("first-tenant", "second-tenant", "third-tenant")] == after
