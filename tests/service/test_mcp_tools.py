"""The MCP tools, asked by the official client over HTTP."""

from mcp import Client
from own_loop import awaited


def test_tools_give_what_the_routes_give_and_errors_are_one_sentence(small, server):
    async def session():
        async with Client(f"{server.url}/mcp") as client:
            asked = {"query": small.queries["q2"], "k": 3}
            calls = ("search", asked), ("search", {"query": " "}), ("get_document", {"docid": "d5"})
            calls = *calls, ("get_document", {"docid": "nothing"})
            return await client.list_tools(), [await client.call_tool(*call) for call in calls]

    tools, (found, blank, text, missing) = awaited(session())
    assert {tool.name for tool in tools.tools} == {"search", "get_document"}
    expected = server.search(small.queries["q2"], k=3).json()["candidates"]
    assert found.structured_content["candidates"] == [
        {name: hit[name] for name in ("docid", "score", "text")} for hit in expected
    ]
    assert found.structured_content["costs"].keys() == {"labels", "milliseconds"}
    assert text.content[0].text == small.texts["d5"]
    for answer, words in ((blank, "the query is empty"), (missing, "no document 'nothing'")):
        assert answer.is_error and words in answer.content[0].text and "Traceback" not in answer.content[0].text
