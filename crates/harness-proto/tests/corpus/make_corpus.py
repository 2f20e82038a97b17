"""Measures what the SDK's own classes make of JSON, and what their descriptors are.

Usage: python make_corpus.py

Run it with a Python that has google-antigravity 0.1.22 installed. Writes cases.json and
sdk_descriptors.json beside itself. The tests read both; neither Python nor the SDK is needed to
run them.

A case is a JSON text and a message type. It is parsed with json_format.Parse and
ignore_unknown_fields, as an SDK that tolerates newer peers would, and written back with
json_format.MessageToJson, which is how the SDK writes.
"""

import json
import pathlib

from google.antigravity.proto import content_pb2, localharness_pb2, skill_pb2
from google.protobuf import descriptor, json_format

HERE = pathlib.Path(__file__).parent
ROOTS = [
    "InputConfig",
    "OutputConfig",
    "InitializeConversationEvent",
    "InputEvent",
    "OutputEvent",
]

MODULES = {
    "antigravity.localharness": localharness_pb2,
    "genai": content_pb2,
    "genai.skills": skill_pb2,
}


def value(text):
    """An OutputEvent whose arguments hold one genai.Value."""
    return '{"toolCall":{"arguments":{"fields":[{"name":"a","value":%s}]}}}' % text


def nested(levels):
    """A genai.Value of lists in lists."""
    return value('{"listValue":{"values":[' * levels + '{"nullValue":null}' + "]}}" * levels)


IN, OUT, INIT = "InputEvent", "OutputEvent", "InitializeConversationEvent"

# (name, message, text)
CASES = [
    # Whole messages of each kind.
    ("user_input_text", IN, '{"userInput":{"parts":[{"text":"Hello"}]}}'),
    ("user_input_parts", IN, '{"userInput":{"parts":[{"text":"a"},{"slashCommand":{"name":"goal"}},{"media":{"mimeType":"image/png","description":"d","data":"iVBORw=="}}]}}'),
    ("user_input_empty", IN, '{"userInput":{}}'),
    ("user_input_string", IN, '{"userInput":"Hello"}'),
    ("user_input_complex", IN, '{"complexUserInput":{"parts":[{"text":"Hello"}]}}'),
    ("user_input_number", IN, '{"userInput":5}'),
    ("user_input_part_empty", IN, '{"userInput":{"parts":[{}]}}'),
    ("tool_confirmation", IN, '{"toolConfirmation":{"trajectoryId":"t","stepIndex":4,"accepted":false}}'),
    ("tool_response_json", IN, '{"toolResponse":{"id":"1","responseJson":"{\\"a\\":1}"}}'),
    ("tool_response_struct", IN, '{"toolResponse":{"id":"1","response":{"fields":[{"name":"x","value":{"structValue":{"fields":[{"name":"y","value":{"numberValue":1.5}}]}}}]}}}'),
    ("tool_response_media", IN, '{"toolResponse":{"id":"1","supplementalMedia":[{"mimeType":"a/b","data":"AAEC"}],"errorMessage":""}}'),
    ("question_answers", IN, '{"questionResponse":{"trajectoryId":"t","stepIndex":1,"response":{"answers":[{"multipleChoiceAnswer":{"selectedChoiceIndices":[0,2],"freeformResponse":"f"}},{"unanswered":true}]}}}'),
    ("question_cancelled", IN, '{"questionResponse":{"cancelled":true}}'),
    ("halt", IN, '{"haltRequest":true}'),
    ("halt_false", IN, '{"haltRequest":false}'),
    ("trigger", IN, '{"automatedTrigger":"tick"}'),
    ("hook_response_deny", IN, '{"callHookResponse":{"requestId":"h1","preToolResult":{"decision":"DENY","reason":"no"}}}'),
    ("hook_response_args", IN, '{"callHookResponse":{"requestId":"h1","preToolResult":{"decision":"ALLOW","modifiedArgs":{"fields":[]}}}}'),
    ("hook_response_empty", IN, '{"callHookResponse":{"requestId":"h1","emptyResult":{}}}'),
    ("hook_response_stop", IN, '{"callHookResponse":{"stopResult":{"decision":"CONTINUE"}}}'),
    ("session_end", IN, '{"sessionEndRequest":true}'),
    ("policy_response", IN, '{"policyDecisionResponse":{"requestId":"p1","outcome":"POLICY_EVALUATION_OUTCOME_NO_MATCH","denyReason":""}}'),
    ("empty_event", IN, "{}"),
    ("step_update", OUT, '{"seqNum":"7","timestampMicros":"1764000000000000","stepUpdate":{"cascadeId":"c","trajectoryId":"c","stepIndex":0,"state":"STATE_ACTIVE","source":"SOURCE_MODEL","target":"TARGET_USER","thinking":"","text":"ab","textDelta":"b","thinkingDelta":""}}'),
    ("step_actions", OUT, '{"stepUpdate":{"runCommand":{"commandLine":"ls","exitCode":0,"combinedOutput":""},"editFile":{"filePath":"f","diffBlock":[{"startLine":1,"endLine":2,"lines":[{"text":"x","action":"LINE_ACTION_INSERT"}]}]},"compaction":{},"error":{"httpCode":0}}}'),
    ("step_custom_tool", OUT, '{"stepUpdate":{"customTool":{"toolCall":{"id":"1","name":"n","argumentsJson":"{}"},"toolResponse":{"id":"1","responseJson":"{}"}}}}'),
    ("trajectory_state", OUT, '{"trajectoryStateUpdate":{"trajectoryId":"t","state":"STATE_FULLY_IDLE","depth":0,"stopReason":"STOP_REASON_QUOTA_EXHAUSTED"}}'),
    ("init_response", OUT, '{"initializeConversationResponse":{"cascadeId":"c","history":[{"stepIndex":0},{"stepIndex":1}],"sandboxStatus":{"available":true,"unavailableReason":""}}}'),
    ("usage_update", OUT, '{"usageUpdate":{"agents":[{"trajectoryId":"t","usage":{"promptTokenCount":"12","promptTokensDetails":[{"modality":"TEXT","tokenCount":"12"}]}}],"total":{"totalTokenCount":13}}}'),
    ("hook_request", OUT, '{"callHookRequest":{"requestId":"1","type":"LIFECYCLE_HOOK_PRE_TOOL","preToolArgs":{"toolName":"t","argumentsJson":"{}","stepIndex":3}}}'),
    ("session_end_response", OUT, '{"sessionEndResponse":true}'),
    ("config_endpoints", INIT, '{"config":{"models":[{"name":"m","types":["MODEL_TYPE_TEXT","MODEL_TYPE_IMAGE"],"geminiApiEndpoint":{"apiKey":"k","httpHeaders":{"b":"2","a":"1"},"options":{"thinkingLevel":"high","maxOutputTokens":8}}},{"vertexEndpoint":{"project":"p"}}]}}'),
    ("config_maps", INIT, '{"config":{"mcpServers":[{"name":"s","stdio":{"command":"c","args":["x",""],"env":{"":"empty key","K":""}}},{"http":{"url":"u","headers":{}}}]}}'),
    ("config_skills", INIT, '{"config":{"skillsConfig":{"enabled":true,"skills":[{"skill":{"name":"s","inlineResources":{"resources":{"a.md":{"text":"t"},"b":{"data":"AA=="}}}}},{"directoryPath":"/d"}]}}}'),
    ("config_tools", INIT, '{"config":{"harnessSideTools":{"find":{"enabled":false},"runCommand":{"enabled":true,"maxTimeoutMs":0,"executionMode":"TOOL_EXECUTION_MODE_SYNC"},"permissions":{}},"tools":[{"name":"t","parametersJsonSchema":"{}"}]}}'),
    ("config_policy", INIT, '{"config":{"policyConfig":{"rules":[{"tool":"*","decision":"POLICY_DECISION_ASK_USER","isDynamic":true,"ruleId":"r"}],"workspaceContainment":"WORKSPACE_CONTAINMENT_DISABLED"}}}'),
    ("config_agents", INIT, '{"config":{"customSubagents":[{"name":"a","skillsConfig":{"noneConfig":{}},"agentBehavior":"AGENT_BEHAVIOR_MINIMAL"},{"skillsConfig":{"inheritConfig":{"skillNames":["x"]}}}]}}'),
    ("config_prompt", INIT, '{"config":{"systemInstructions":{"custom":{"part":[{"text":"a"},{"builtinSection":"b"},{"template":{"name":"n","args":[{"name":"k","value":"v"}]}}]},"overrides":[{"title":"t","remove":true}]}}}'),
    ("config_template_old_name", INIT, '{"config":{"systemInstructions":{"custom":{"part":[{"template":{"templateName":"n"}}]}}}}'),
    ("config_budget", INIT, '{"config":{"budgetConfig":{"maxModelCalls":3,"maxInputTokens":"9007199254740993","scope":"BUDGET_SCOPE_LIFETIME"}}}'),
    ("input_config", "InputConfig", '{"storageDirectory":"/s","port":65535,"env":{"A":"b"},"clientInfo":{"language":"python","version":"0.1.22"},"useInteractionsApi":false}'),
    ("pretty_printed", INIT, '{\n  "config": {\n    "cascadeId": "",\n    "compactionThreshold": 0,\n    "workspaces": [\n      {\n        "filesystemWorkspace": {\n          "directory": "/w"\n        }\n      }\n    ],\n    "initialTrajectory": ""\n  }\n}\n'),
    # Names.
    ("snake_case", OUT, '{"seq_num":"1","step_update":{"step_index":2,"text_delta":"x"}}'),
    ("both_names", OUT, '{"stepUpdate":{"textDelta":"a","text_delta":"b"}}'),
    ("wrong_case", OUT, '{"stepUpdate":{"TextDelta":"a","textdelta":"b"}}'),
    ("json_name_override", "genai.ImageContent", '{"legacy_mime_type_enum":"TYPE_PNG","mimeTypeString":"image/png"}'),
    ("json_name_override_proto", "genai.ImageContent", '{"mime_type":"TYPE_PNG"}'),
    ("json_name_override_camel", "genai.ImageContent", '{"mimeType":"TYPE_PNG"}'),
    # Explicit zeros and absence.
    ("zeros", OUT, '{"seqNum":0,"stepUpdate":{"stepIndex":0,"text":"","state":0,"viewFile":{"contentOffset":0},"questionsRequest":{"questions":[{"multipleChoice":{"isMultiSelect":false}}]}}}'),
    ("empty_message_is_set", OUT, '{"stepUpdate":{"finish":{}}}'),
    ("empty_list_is_unset", OUT, '{"stepUpdate":{"questionsRequest":{"questions":[]}}}'),
    ("empty_map_is_unset", "InputConfig", '{"env":{}}'),
    # null.
    ("null_scalar", OUT, '{"seqNum":null,"stepUpdate":{"text":null,"stepIndex":null}}'),
    ("null_message", OUT, '{"stepUpdate":{"finish":null}}'),
    ("null_enum", OUT, '{"stepUpdate":{"state":null}}'),
    ("null_list", OUT, '{"stepUpdate":{"questionsRequest":{"questions":null}}}'),
    ("null_list_of_numbers", "MultipleChoiceAnswer", '{"selectedChoiceIndices":null}'),
    ("null_list_of_enums", INIT, '{"config":{"enabledHooks":null}}'),
    ("null_map", "InputConfig", '{"env":null}'),
    ("null_map_value", "InputConfig", '{"env":{"a":null}}'),
    ("null_element", OUT, '{"initializeConversationResponse":{"history":[null]}}'),
    ("null_string_element", INIT, '{"config":{"skillsPaths":[null]}}'),
    ("null_enum_element", INIT, '{"config":{"enabledHooks":[null]}}'),
    ("null_oneof_beside_another", IN, '{"haltRequest":null,"automatedTrigger":"x"}'),
    ("null_user_input", IN, '{"userInput":null}'),
    ("null_event", IN, "null"),
    # genai.Value.
    ("value_null", OUT, value('{"nullValue":null}')),
    ("value_null_by_name", OUT, value('{"nullValue":"NULL_VALUE"}')),
    ("value_null_by_number", OUT, value('{"null_value":0}')),
    ("value_number", OUT, value('{"numberValue":-1.25e-3}')),
    ("value_number_whole", OUT, value('{"numberValue":3}')),
    ("value_number_string", OUT, value('{"numberValue":"2.5"}')),
    ("value_number_big", OUT, value('{"numberValue":9007199254740993}')),
    ("value_nan", OUT, value('{"numberValue":"NaN"}')),
    ("value_infinity", OUT, value('{"numberValue":"-Infinity"}')),
    ("value_bare_nan", OUT, value('{"numberValue":NaN}')),
    ("value_number_overflow", OUT, value('{"numberValue":1e999}')),
    ("value_number_string_overflow", OUT, value('{"numberValue":"1e999"}')),
    ("value_string", OUT, value('{"stringValue":"\\u00e9\\ud83d\\ude00\\u0000"}')),
    ("value_bool", OUT, value('{"boolValue":false}')),
    ("value_struct_empty", OUT, value('{"structValue":{}}')),
    ("value_list", OUT, value('{"listValue":{"values":[{"nullValue":null},{"boolValue":true},{"listValue":{}}]}}')),
    ("value_content", OUT, value('{"contentValue":{"text":{"text":"t","annotations":[{"startIndex":0,"fileCitation":{"customMetadata":{"a":[1,null,{"b":"c"}]}}}]}}}')),
    ("value_content_image", OUT, value('{"contentValue":{"image":{"data":"AQID","mimeTypeString":"image/png","resolution":"HIGH"}}}')),
    ("value_function", OUT, value('{"functionValue":{"name":"f","parameters":{"nullValue":null},"deferLoading":true}}')),
    ("value_empty", OUT, value("{}")),
    ("value_unset", OUT, value("null")),
    ("value_two_kinds", OUT, value('{"boolValue":true,"stringValue":"x"}')),
    ("value_null_and_kind", OUT, value('{"stringValue":null,"boolValue":true}')),
    ("value_unknown_kind", OUT, value('{"dateValue":1}')),
    ("value_plain", OUT, value('"x"')),
    ("value_nested_20", OUT, nested(20)),
    ("value_nested_45", OUT, nested(45)),
    ("value_nested_too_deep", OUT, nested(60)),
    ("duplicate_member_names", OUT, '{"toolCall":{"arguments":{"fields":[{"name":"a"},{"name":"a"}]}}}'),
    ("struct_as_object", OUT, '{"toolCall":{"arguments":{"a":1}}}'),
    # Unknown fields.
    ("unknown_top", IN, '{"haltRequest":true,"newThing":{"a":[1,{"b":null}]}}'),
    ("unknown_nested", OUT, '{"stepUpdate":{"text":"x","holo":{"x":1},"runCommand":{"pty":true}}}'),
    ("unknown_in_list", INIT, '{"config":{"models":[{"name":"m","speed":1e999999}]}}'),
    ("unknown_key_twice", IN, '{"haltRequest":true,"x":1,"x":2}'),
    # Enums.
    ("enum_number", OUT, '{"stepUpdate":{"state":2}}'),
    ("enum_number_unknown", OUT, '{"stepUpdate":{"state":99}}'),
    ("enum_number_negative", OUT, '{"stepUpdate":{"state":-1}}'),
    ("enum_number_in_string", OUT, '{"stepUpdate":{"state":"2"}}'),
    ("enum_unknown_number_in_string", OUT, '{"stepUpdate":{"state":"99"}}'),
    ("enum_whole_float", OUT, '{"stepUpdate":{"state":2.0}}'),
    ("enum_float", OUT, '{"stepUpdate":{"state":1.5}}'),
    ("enum_bool", OUT, '{"stepUpdate":{"state":true}}'),
    ("enum_name_unknown", OUT, '{"stepUpdate":{"state":"STATE_DREAMING","text":"x"}}'),
    ("enum_name_lower", OUT, '{"stepUpdate":{"state":"state_done"}}'),
    ("enum_out_of_range", OUT, '{"stepUpdate":{"state":4294967296}}'),
    ("enum_list", INIT, '{"config":{"enabledHooks":["LIFECYCLE_HOOK_STOP",1,"NEW","3",77]}}'),
    ("enum_in_oneof", "genai.VideoContent", '{"processingType":"AGENTIC"}'),
    ("enum_in_oneof_unknown", "genai.VideoContent", '{"processingType":"MAGIC"}'),
    ("enum_in_oneof_zero", "genai.VideoContent", '{"processingType":0}'),
    ("enum_idle_old_name", OUT, '{"trajectoryStateUpdate":{"state":"STATE_IDLE"}}'),
    ("enum_terminal_error", OUT, '{"stepUpdate":{"state":"STATE_TERMINAL_ERROR"}}'),
    # Integers.
    ("int64_string", OUT, '{"seqNum":"9007199254740993"}'),
    ("int64_number", OUT, '{"seqNum":9007199254740993}'),
    ("int64_min", OUT, '{"seqNum":"-9223372036854775808"}'),
    ("int64_too_big", OUT, '{"seqNum":"9223372036854775808"}'),
    ("uint64_max", "UsageMetadata", '{"totalTokenCount":18446744073709551615}'),
    ("uint64_too_big", "UsageMetadata", '{"totalTokenCount":"18446744073709551616"}'),
    ("uint64_negative", "UsageMetadata", '{"totalTokenCount":-1}'),
    ("uint32_negative", OUT, '{"stepUpdate":{"stepIndex":-1}}'),
    ("uint32_too_big", OUT, '{"stepUpdate":{"stepIndex":4294967296}}'),
    ("int32_string", OUT, '{"stepUpdate":{"viewFile":{"contentOffset":"-7"}}}'),
    ("int_whole_float", OUT, '{"stepUpdate":{"stepIndex":7.0}}'),
    ("int_exponent", OUT, '{"seqNum":1e3,"stepUpdate":{"stepIndex":1e2}}'),
    ("int_float_string", OUT, '{"seqNum":"1.0"}'),
    ("int_fraction", OUT, '{"stepUpdate":{"stepIndex":1.5}}'),
    ("int_fraction_string", OUT, '{"stepUpdate":{"stepIndex":"1.5"}}'),
    ("int_bool", OUT, '{"stepUpdate":{"stepIndex":true}}'),
    ("int_text", OUT, '{"stepUpdate":{"stepIndex":"seven"}}'),
    ("int_empty_string", OUT, '{"stepUpdate":{"stepIndex":""}}'),
    ("int_padded_string", OUT, '{"stepUpdate":{"stepIndex":" 5"}}'),
    ("int_underscore", OUT, '{"stepUpdate":{"stepIndex":"1_000"}}'),
    ("int_leading_zero", OUT, '{"stepUpdate":{"stepIndex":"007"}}'),
    ("int_list", "MultipleChoiceAnswer", '{"selectedChoiceIndices":[0,"1",2.0]}'),
    # Floats.
    ("float_fields", INIT, '{"config":{"retryConfig":{"apiRetry":{"maxRetries":0,"exponentialMultiplier":2,"jitterRange":0.1}}}}'),
    ("float_nan", "ModelAPIRetryConfig", '{"jitterRange":"NaN","exponentialMultiplier":"Infinity"}'),
    ("float_lower_nan", "ModelAPIRetryConfig", '{"jitterRange":"nan"}'),
    ("float_tiny", "ModelAPIRetryConfig", '{"jitterRange":5e-324}'),
    ("float_text", "ModelAPIRetryConfig", '{"jitterRange":"much"}'),
    # Bytes.
    ("bytes_standard", "Media", '{"data":"+/+/AA=="}'),
    ("bytes_urlsafe", "Media", '{"data":"-_-_AA=="}'),
    ("bytes_mixed", "Media", '{"data":"+_-/AA=="}'),
    ("bytes_unpadded", "Media", '{"data":"-_-_AA"}'),
    ("bytes_empty", "Media", '{"data":""}'),
    ("bytes_newlines", "Media", '{"data":"AAEC\\r\\nAwQF\\n"}'),
    ("bytes_trailing_bits", "Media", '{"data":"AB=="}'),
    ("bytes_garbage", "Media", '{"data":"A*A=A"}'),
    ("bytes_one_character", "Media", '{"data":"A"}'),
    ("bytes_list", "Media", '{"data":[1,2]}'),
    # Strings and bools.
    ("string_escapes", IN, '{"automatedTrigger":"\\"\\\\\\/\\b\\f\\n\\r\\t\\u2028\\u007f"}'),
    ("string_raw_unicode", IN, '{"automatedTrigger":"\u65e5\u672c \U0001f600"}'),
    ("string_number", IN, '{"automatedTrigger":5}'),
    ("string_lone_surrogate", IN, '{"automatedTrigger":"\\ud800"}'),
    ("bool_string", IN, '{"haltRequest":"true"}'),
    ("bool_number", IN, '{"haltRequest":1}'),
    # Oneofs.
    ("oneof_two", IN, '{"haltRequest":true,"automatedTrigger":"x"}'),
    ("oneof_same_twice", IN, '{"haltRequest":true,"haltRequest":true}'),
    ("oneof_beside_fields", "ActionListDirectory", '{"results":[{"name":"d","isDirectory":true},{"fileSize":"0"}]}'),
    # Duration.
    ("duration", "genai.WordInfo", '{"startOffset":"1.5s","endOffset":"-0.000000001s"}'),
    ("duration_zero", "genai.WordInfo", '{"startOffset":"0s"}'),
    ("duration_bad", "genai.WordInfo", '{"startOffset":"1.5"}'),
    ("duration_double_minus", "genai.WordInfo", '{"startOffset":"--1s"}'),
    ("duration_out_of_range", "genai.WordInfo", '{"startOffset":"315576000001s"}'),
    ("duration_object", "genai.WordInfo", '{"startOffset":{"seconds":1}}'),
    # Not a message.
    ("not_json", IN, "{haltRequest:true}"),
    ("truncated", IN, '{"haltRequest":tr'),
    ("empty_text", IN, ""),
    ("trailing_text", IN, "{} {}"),
    ("trailing_comma", IN, '{"haltRequest":true,}'),
    ("comment", IN, '{"haltRequest":true /* x */}'),
    ("byte_order_mark", IN, "\ufeff{}"),
    ("array", IN, "[]"),
    ("string", IN, '"x"'),
    ("message_as_array", OUT, '{"stepUpdate":[]}'),
    ("message_as_string", OUT, '{"stepUpdate":"x"}'),
    ("list_as_object", OUT, '{"initializeConversationResponse":{"history":{}}}'),
    ("list_as_scalar", INIT, '{"config":{"skillsPaths":"/x"}}'),
    ("map_as_list", "InputConfig", '{"env":[]}'),
    ("map_value_number", "InputConfig", '{"env":{"a":1}}'),
    ("key_twice", OUT, '{"seqNum":1,"seqNum":2}'),
]


def message_class(name):
    """The class of a message, by name within the harness package or by full name."""
    package, _, short = name.rpartition(".")
    return getattr(MODULES[package or "antigravity.localharness"], short)


def run(name, message, text):
    """One case as it is written to the file."""
    cls = message_class(message)
    case = {"name": name, "message": cls.DESCRIPTOR.full_name, "input": text}
    try:
        parsed = json_format.Parse(text, cls(), ignore_unknown_fields=True)
    except json_format.ParseError:
        return case | {"accepted": False}
    output = json_format.MessageToJson(parsed, indent=None, sort_keys=True)
    return case | {"accepted": True, "output": output}


TYPES = {
    number: name.removeprefix("TYPE_").lower()
    for name, number in vars(descriptor.FieldDescriptor).items()
    if name.startswith("TYPE_")
}


def describe():
    """Every message and enum that the roots reach."""
    messages, enums = {}, {}

    def visit(message):
        if message.full_name in messages:
            return
        fields = []
        messages[message.full_name] = fields
        for field in message.fields:
            kind = field.message_type or field.enum_type
            oneof = field.containing_oneof
            fields.append({
                "name": field.name,
                "json_name": field.json_name,
                "number": field.number,
                "type": TYPES[field.type],
                "type_name": kind.full_name if kind else None,
                "repeated": field.is_repeated,
                "oneof": oneof.name if oneof else None,
                "presence": field.has_presence,
            })
            if field.message_type:
                visit(field.message_type)
            if field.enum_type:
                enums[field.enum_type.full_name] = {
                    value.name: value.number for value in field.enum_type.values
                }

    for root in ROOTS:
        visit(localharness_pb2.DESCRIPTOR.message_types_by_name[root])
    return {"messages": messages, "enums": enums}


def write(name, data):
    text = json.dumps(data, indent=1, ensure_ascii=True, sort_keys=True)
    (HERE / name).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    assert len({case[0] for case in CASES}) == len(CASES), "two cases of one name"
    write("cases.json", [run(*case) for case in CASES])
    write("sdk_descriptors.json", describe())
