"""Whether a cap in dollars can be kept at all, asked before anything runs."""

from __future__ import annotations

from collections.abc import Mapping

from agents.models.litellm_client import client
from agents.models.prices import tariff
from agents.settings import ModelKind, ModelSettings
from orchestrator.limits.settings import LimitsSettings
from orchestrator.settings import ConfigError


def require_prices(models: Mapping[str, ModelSettings], limits: LimitsSettings) -> None:
    """Raise ConfigError when the worst case of a request to one of the models, by label, has no price under a cap."""
    if limits.cost_usd is None:
        return
    for label, model in models.items():
        if model.kind is not ModelKind.litellm:
            continue
        told = tariff(model, {}) is not None and model.max_tokens is not None
        listed = {} if told else client().listed(model.litellm_model)  # whose import takes seconds
        if tariff(model, listed) is None:
            raise ConfigError(
                f"limits.cost_usd={limits.cost_usd:g} cannot be kept, as nobody knows the price of model {label}; add "
                "`price_input_usd_per_mtok: DOLLARS` and `price_output_usd_per_mtok: DOLLARS` to its file under "
                "conf/model/, or `price: free` if it costs nothing"
            )
        if not (model.max_tokens or listed.get("max_output_tokens") or model.context_tokens):
            raise ConfigError(
                f"limits.cost_usd={limits.cost_usd:g} cannot be kept, as nobody knows how long a reply of {label} can "
                "be; add `max_tokens: TOKENS` to its file under conf/model/"
            )
