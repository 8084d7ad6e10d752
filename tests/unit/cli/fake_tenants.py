"""Tenants, queues and quotas in the place of the network: answers what it was told to."""

import json
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.unit.cli.fake_service import FakeService

Json = dict[str, Any]

USAGE: Json = {
    "gpu_hours": 12.5,
    "gpu_seconds": 45000.0,
    "jobs_completed": 3,
    "jobs_failed": 1,
    "jobs_cancelled": 0,
    "cost": 25.0,
}
TENANT: Json = {
    "id": "research",
    "name": "ML Research Team",
    "max_gpus": 16.0,
    "max_gpus_by_type": {"A100": 8.0},
    "max_gpu_memory_mb": 204800,
    "max_cpu_cores": None,
    "max_memory_mb": None,
    "max_concurrent_jobs": 20,
    "priority_tier": "high",
    "fair_share_weight": 2.0,
    "allow_preemption": True,
    "enforce_quota": True,
    "cohort": "science",
    "run_as": "research-jobs",
    "members_see": "jobs",
    "user_limits": {
        "max_gpus": 4.0,
        "max_concurrent_jobs": None,
        "max_gpu_hours_per_day": 24.0,
    },
    "users": {"ada": {"max_gpus": 8.0, "max_concurrent_jobs": 2, "max_gpu_hours_per_day": None}},
    "max_borrow_gpus": 4.0,
    "max_lend_gpus": None,
    "budget": {"gpu_hours": 500.0, "cost": 1000.0, "window": "month", "action": "hold"},
    "max_priority": 1500,
    "active": True,
    "created_at": "2023-11-14T22:12:20Z",
    "current_gpus": 4.5,
    "borrowed_gpus": 1.5,
    "lent_gpus": 0.0,
    "current_gpus_by_type": {"A100": 4.5},
    "current_gpu_memory_mb": 1024,
    "current_cpu_cores": 8.0,
    "current_memory_mb": 2048,
    "current_jobs": 3,
    "usage": USAGE,
}
QUEUE: Json = {
    "id": "research:night",
    "project_id": "research",
    "name": "night",
    "priority": -10,
    "max_concurrent_jobs": 4,
    "enabled": False,
    "policy": "shortest",
    "wait_target_seconds": 1800.0,
    "idle_action": "hold",
    "running_jobs": 1,
    "pending_jobs": 7,
    "total_jobs": 9,
}
QUOTA: Json = {
    "project_id": "research",
    "cpu_quota": None,
    "used_cpu": 8.0,
    "available_cpu": None,
    "cpu_usage_percent": None,
    "memory_quota": 512.0,
    "used_memory": 128.0,
    "available_memory": 384.0,
    "memory_usage_percent": 25.0,
    "gpu_quota": 16.0,
    "used_gpu": 4.5,
    "available_gpu": 11.5,
    "gpu_usage_percent": 28.12,
    "borrowed_gpu": 0.0,
    "lent_gpu": 0.0,
    "enforce_quota": False,
    "provider": "ldap",
    "synced_at": "2023-11-14T22:12:20Z",
    "user_limits": {"max_gpus": 4.0, "max_concurrent_jobs": 10, "max_gpu_hours_per_day": 24.0},
    "users": [
        {
            "user": "ada",
            "max_gpus": 8.0,
            "max_concurrent_jobs": None,
            "max_gpu_hours_per_day": 1.0,
            "by_name": True,
            "current_gpus": 4.5,
            "current_jobs": 3,
            "gpu_hours_today": 1.25,
        },
    ],
}
USERS: Json = {
    "tenant_id": "research",
    "user_limits": QUOTA["user_limits"],
    "users": QUOTA["users"],
}


@dataclass
class FakeTenants(FakeService):
    tenant: Json = field(default_factory=lambda: dict(TENANT))
    mine: str = "default"  # the caller's own

    def answer(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/api/v1").strip("/").split("/")
        if path == ["whoami"]:
            found = {"name": "ada", "kind": "uid", "role": "user", "tenants": [self.mine]}
            return httpx.Response(200, json={**found, "tenant": self.mine})
        if path[0] not in ("tenants", "queues") or self.refusal or self.broken:
            return super().answer(request)
        self.requests.append((request.method, str(request.url.raw_path, "ascii")[7:]))
        if request.content:
            self.bodies.append(json.loads(request.content))
        match request.method, path:
            case "DELETE", ["queues", _]:
                return httpx.Response(204)
            case "GET", ["tenants"]:
                return httpx.Response(200, json={"tenants": [self.tenant]})
            case "GET", ["tenants", owner, "usage"]:
                days = [{"date": "2023-11-14", **USAGE}]
                return httpx.Response(200, json={"tenant_id": owner, "total": USAGE, "days": days})
            case _, ["tenants", _, "users"]:
                return httpx.Response(200, json=USERS)
            case _, ["tenants", *_]:
                return httpx.Response(200, json=self.tenant)
            case "GET", ["queues"]:
                return httpx.Response(200, json=[QUEUE])
            case _, ["queues", "quota", _]:
                return httpx.Response(200, json=QUOTA)
        return httpx.Response(200, json=QUEUE)
