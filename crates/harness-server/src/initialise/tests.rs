use harness_proto::json::from_json;
use harness_proto::localharness::InitializeConversationEvent;

use super::*;

fn read(config: &Value) -> Result<Requested, Refusal> {
    let first = json!({ "config": config }).to_string();
    let parsed = from_json::<InitializeConversationEvent>(&first).unwrap();
    blueprint(parsed.message.config.unwrap(), &parsed.unknown)
}

fn with(more: Value) -> Value {
    let mut config = json!({ "models": [{
        "name": "m", "types": ["MODEL_TYPE_TEXT"],
        "geminiApiEndpoint": { "baseUrl": "http://localhost", "apiKey": "secret-key" },
    }] });
    if let (Some(config), Value::Object(more)) = (config.as_object_mut(), more) {
        config.extend(more);
    }
    config
}

#[test]
fn what_cannot_be_honoured_is_refused_by_its_field() {
    let rule = |rule: Value| json!({ "policyConfig": { "rules": [rule] } });
    let cases = [
        (
            json!({ "models": [] }),
            "models: there is no model for text",
        ),
        (
            json!({ "models": [{ "name": "m" }] }),
            "models[0] (\"m\") names no endpoint",
        ),
        (
            json!({ "cascadeId": "a/../b" }),
            "cascadeId: must be at least 32 characters long, got 6",
        ),
        (
            json!({ "workspaces": [{}] }),
            "workspaces[0] names no folder",
        ),
        (
            json!({ "finishToolSchemaJson": "{" }),
            "finishToolSchemaJson is no JSON: EOF while parsing an object at line 1 column 1",
        ),
        (
            rule(json!({ "tool": "x", "name": "n", "decision": "POLICY_DECISION_ASK_USER" })),
            "policyConfig.rules[0] (\"n\"): a rule that asks the user must be dynamic, or nobody \
             can be asked",
        ),
        (
            rule(json!({ "tool": "x", "name": "n" })),
            "policyConfig.rules[0] (\"n\") decides nothing",
        ),
        (
            json!({ "retryConfig": { "apiRetry": { "jitterRange": "NaN" } } }),
            "retryConfig.apiRetry.jitterRange must be a number of at least 0",
        ),
        (
            json!({ "retryConfig": { "apiRetry": { "exponentialMultiplier": -1 } } }),
            "retryConfig.apiRetry.exponentialMultiplier must be a number of at least 0",
        ),
    ];
    for (more, why) in cases {
        let refused = read(&with(more.clone())).map(|_| ()).unwrap_err();
        assert_eq!(refused.to_string(), why, "{more}");
    }
}

#[test]
fn f063_an_unknown_word_where_safety_hangs_on_it_is_refused() {
    let unsafe_words = [
        json!({ "policyConfig": { "rules": [
            { "tool": "x", "name": "n", "decision": "POLICY_DECISION_PERHAPS" },
        ] } }),
        json!({ "policyConfig": { "workspaceContainment": "WORKSPACE_CONTAINMENT_SOMEWHAT" } }),
        json!({ "enabledHooks": ["LIFECYCLE_HOOK_OF_TOMORROW"] }),
        json!({ "sessionContinuationMode": "PERHAPS" }),
    ];
    for more in unsafe_words {
        assert!(read(&with(more.clone())).is_err(), "{more}");
    }
    // Elsewhere it is as if nothing had been said.
    let vague = json!({ "agentBehavior": "AGENT_BEHAVIOR_DREAMY" });
    let config = read(&with(vague)).unwrap().blueprint.config;
    assert_eq!(config.behavior, AgentBehavior::Autonomous);
}

#[test]
fn containment_is_off_only_when_nothing_asks_for_it() {
    let containment = |more: Value| {
        read(&with(more))
            .unwrap()
            .blueprint
            .config
            .policy
            .containment
    };
    let enforced = json!({ "permissions": { "enforceWorkspaceValidation": true } });
    let disabled = json!({ "workspaceContainment": "WORKSPACE_CONTAINMENT_DISABLED" });
    assert_eq!(containment(json!({})), Containment::Unconfined);
    assert_eq!(
        containment(json!({ "harnessSideTools": enforced })),
        Containment::Contained
    );
    assert_eq!(
        containment(json!({ "policyConfig": {} })),
        Containment::Contained
    );
    assert_eq!(
        containment(json!({ "policyConfig": disabled })),
        Containment::Unconfined
    );
    let both = json!({ "policyConfig": disabled, "harnessSideTools": enforced });
    assert_eq!(containment(both), Containment::Contained);
}

#[test]
fn what_is_not_built_is_listed() {
    let tools = json!({ "harnessSideTools": {
        "viewFile": { "enabled": true }, "listDir": { "enabled": false },
        "searchWeb": { "enabled": true }, "subagents": { "enabled": true },
    } });
    let requested = read(&with(tools)).unwrap();
    let built = BTreeSet::from(["view_file".to_owned()]);
    assert_eq!(requested.blueprint.config.tools, built);
    assert_eq!(requested.not_built, ["subagents", "search_web"]);
}

#[test]
fn the_model_of_the_first_sdks_is_understood() {
    let old = json!({ "geminiConfig": {
        "modelName": "old", "apiKey": "k", "baseUrl": "http://localhost", "thinkingLevel": "low",
    } });
    let blueprint = read(&old).unwrap().blueprint;
    assert_eq!(blueprint.models.len(), 1);
    assert_eq!(blueprint.models[0].name, "old");
    assert_eq!(
        blueprint.config.generation.thinking_level.as_deref(),
        Some("low")
    );
}

#[test]
fn a_budget_of_nothing_is_none() {
    let config = json!({ "budgetConfig": { "maxModelCalls": 0, "maxToolCalls": -3, "maxTotalTokens": "9" } });
    let budget = read(&with(config)).unwrap().blueprint.config.budget;
    let expected = Budget {
        max_total_tokens: Some(9),
        ..Budget::default()
    };
    assert_eq!(budget, expected);
}

#[test]
fn f038_a_blueprint_does_not_show_its_keys() {
    let headers = json!({ "models": [{ "name": "m", "geminiApiEndpoint": {
        "apiKey": "secret-key", "httpHeaders": { "X-Auth": "secret-header" },
    } }] });
    let shown = format!("{:?}", read(&headers).unwrap());
    assert!(
        shown.contains("X-Auth") && !shown.contains("secret-"),
        "{shown}"
    );
}
