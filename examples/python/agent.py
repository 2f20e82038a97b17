"""An agent of the google-antigravity SDK, run by whatever ANTIGRAVITY_HARNESS_PATH names.

    pip install google-antigravity==0.1.22
    export ANTIGRAVITY_HARNESS_PATH=$PWD/target/release/localharness GEMINI_API_KEY=...
    python examples/python/agent.py "What is in this folder?"

GOOGLE_GEMINI_BASE_URL, if it is set, is where the model answers in place of Google's API.
"""

import asyncio
import os
import sys

from google.antigravity import Agent, CapabilitiesConfig, GeminiAPIEndpoint, LocalAgentConfig
from google.antigravity import ModelTarget, ModelType
from google.antigravity.types import BuiltinTools

endpoint = GeminiAPIEndpoint(
    base_url=os.environ.get("GOOGLE_GEMINI_BASE_URL"), api_key=os.environ.get("GEMINI_API_KEY")
)
tools = [BuiltinTools.LIST_DIR, BuiltinTools.VIEW_FILE]
config = LocalAgentConfig(
    model=ModelTarget(name="gemini-3-flash", types=[ModelType.TEXT], endpoint=endpoint),
    workspaces=[os.getcwd()],
    capabilities=CapabilitiesConfig(enabled_tools=tools, enable_subagents=False),
)


async def main(prompt: str) -> None:
    async with Agent(config) as agent:
        print(await (await agent.chat(prompt)).text())


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "What is in this folder?"))
