"""The MCP tools, asked by the official client over HTTP."""

from mcp import Client
from own_loop import awaited


def ask(server, work):
    async def session():
        async with Client(f"{server.url}/mcp") as client:
            return await work(client)

    return awaited(session())


def test_search_gives_the_passages_of_a_search(small, server):
    async def work(client):
        tools = await client.list_tools()
        found = await client.call_tool("search", {"query": small.queries["q2"], "k": 3})
        text = await client.call_tool("get_document", {"docid": "d5"})
        return tools, found, text

    tools, found, text = ask(server, work)
    assert {tool.name for tool in tools.tools} == {"search", "get_document"}
    passages = found.structured_content["passages"]
    expected = server.search(small.queries["q2"], k=3).json()["candidates"]
    assert [(one["docid"], one["score"]) for one in passages] == [(hit["docid"], hit["score"]) for hit in expected]
    assert text.content[0].text == small.texts["d5"]


def test_what_goes_wrong_is_one_sentence(server):
    async def work(client):
        return [
            await client.call_tool("search", {"query": " "}),
            await client.call_tool("get_document", {"docid": "nothing"}),
        ]

    for answer, words in zip(ask(server, work), ("the query is empty", "no document 'nothing'"), strict=True):
        assert answer.is_error and words in answer.content[0].text and "Traceback" not in answer.content[0].text
