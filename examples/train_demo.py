"""A real if tiny training that needs no GPU and nothing but Python: logistic regression.

tgpu submit --gpus 1 --requeue -- python3 examples/train_demo.py --epochs 40

It saves a checkpoint after every epoch and goes on from it when it is started again, so that a job
submitted with --requeue loses at most one epoch.
"""

import argparse
import json
import math
import os
import random
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

POINTS = 400


@dataclass
class Model:
    """Weights of a line that tells two clouds of points apart, and how far training has come."""

    epoch: int = 0
    bias: float = 0.0
    weight_x: float = 0.0
    weight_y: float = 0.0

    def chance(self, x: float, y: float) -> float:
        return 1 / (1 + math.exp(-(self.bias + self.weight_x * x + self.weight_y * y)))


Point = tuple[float, float, int]


def main() -> int:
    arguments = parse_arguments()
    points = make_points(random.Random(arguments.seed))
    checkpoint = arguments.checkpoint
    model = load(checkpoint)
    print(f"GPUs: {os.environ.get('CUDA_VISIBLE_DEVICES') or 'none'}", flush=True)
    if model.epoch:
        print(f"resuming after epoch {model.epoch} from {checkpoint}", flush=True)
    while model.epoch < arguments.epochs:
        loss = train_epoch(model, points, arguments.learning_rate)
        model.epoch += 1
        save(checkpoint, model)
        print(
            f"epoch {model.epoch}/{arguments.epochs} loss {loss:.4f} "
            f"accuracy {accuracy(model, points):.3f}",
            flush=True,
        )
        time.sleep(arguments.pause)
    reached = accuracy(model, points)
    print(f"done: accuracy {reached:.3f}")
    checkpoint.unlink(missing_ok=True)
    return 0 if reached >= arguments.target else 1


def parse_arguments() -> argparse.Namespace:
    # One checkpoint for each job: several of them may train in the same directory.
    job = os.environ.get("TGPU_JOB_ID", "alone")
    parser = argparse.ArgumentParser(description="Train a tiny classifier on the CPU.")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--learning-rate", "--lr", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pause", type=float, default=0.1, help="seconds between epochs")
    parser.add_argument("--target", type=float, default=0.9, help="accuracy below which it fails")
    parser.add_argument("--checkpoint", type=Path, default=Path(f"train_demo.{job}.json"))
    return parser.parse_args()


def make_points(source: random.Random) -> list[Point]:
    """Two clouds, around (-1, -1) and (1, 1), that overlap a little."""
    points: list[Point] = []
    for number in range(POINTS):
        label = number % 2
        centre = 1 if label else -1
        points.append((source.gauss(centre, 0.8), source.gauss(centre, 0.8), label))
    return points


def train_epoch(model: Model, points: list[Point], learning_rate: float) -> float:
    """One pass of stochastic gradient descent; the mean loss on the way."""
    total = 0.0
    for x, y, label in points:
        chance = model.chance(x, y)
        error = chance - label
        model.bias -= learning_rate * error
        model.weight_x -= learning_rate * error * x
        model.weight_y -= learning_rate * error * y
        total -= math.log(max(1e-12, chance if label else 1 - chance))
    return total / len(points)


def accuracy(model: Model, points: list[Point]) -> float:
    right = sum((model.chance(x, y) >= 0.5) == bool(label) for x, y, label in points)
    return right / len(points)


def load(path: Path) -> Model:
    try:
        return Model(**json.loads(path.read_text()))
    except FileNotFoundError:
        return Model()


def save(path: Path, model: Model) -> None:
    """In one step: a job that is killed while it writes must find the old checkpoint whole."""
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(asdict(model)))
    partial.replace(path)


if __name__ == "__main__":
    sys.exit(main())
