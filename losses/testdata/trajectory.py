"""What dino.py, ibot.py and mugs.py share: DINO's head, Sinkhorn-Knopp, and the updates of student and teacher, in float64."""
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
STEPS, EPOCH, WARMUP = 20, 5, 3
RATE, DECAY, TEACHER_MOMENTUM, CENTER_MOMENTUM = 0.01, 0.1, 0.9, 0.9
START, FINAL, STUDENT = 0.04, 0.07, 0.1
RECIPE = {"Epoch": EPOCH, "Warmup": WARMUP, "Rate": RATE, "Decay": DECAY, "TeacherMomentum": TEACHER_MOMENTUM, "CenterMomentum": CENTER_MOMENTUM,
          "Start": START, "Final": FINAL, "Student": STUDENT}


def temperature(epoch, start=START, final=FINAL):
    """The teacher's: linear over WARMUP epochs, numpy.linspace in the official code."""
    return start + (final - start) * epoch / (WARMUP - 1) if epoch < WARMUP else final


def short(x, digits=4):
    return torch.round(x, decimals=digits)


def linear(a, b):
    """Weights [out, in] and a bias."""
    return short(torch.randn(b, a) / a**0.5), short(0.1 * torch.randn(b))


def head_start(width, hidden, bottleneck, out):
    start = {}
    for name, (a, b) in {"mlp/0": (width, hidden), "mlp/2": (hidden, hidden), "mlp/4": (hidden, bottleneck)}.items():
        start[name + "/weight"], start[name + "/bias"] = linear(a, b)
    start["last_layer/weight_v"] = short(torch.randn(out, bottleneck))
    start["last_layer/weight_g"] = torch.ones(out, 1)
    return start


def head(p, x):
    x = F.gelu(F.linear(x, p["mlp/0/weight"], p["mlp/0/bias"]))
    x = F.gelu(F.linear(x, p["mlp/2/weight"], p["mlp/2/bias"]))
    x = F.normalize(F.linear(x, p["mlp/4/weight"], p["mlp/4/bias"]), dim=-1)
    v = p["last_layer/weight_v"]
    return F.linear(x, p["last_layer/weight_g"] * v / v.norm(dim=1, keepdim=True))


def sinkhorn(scores, iterations=3):
    q = torch.exp(scores).t()
    q = q / q.sum()
    for _ in range(iterations):
        q = q / q.sum(dim=1, keepdim=True) / q.shape[0]
        q = q / q.sum(dim=0, keepdim=True) / q.shape[1]
    return (q * q.shape[1]).t()


def numbers(values):
    return [float("%.11g" % v) for v in values]


def save(p):
    """Weights as [in, out], biases as one row."""
    return {name: [numbers(row) for row in (value.detach() if value.dim() == 2 else value.detach()[:, None]).t().tolist()] for name, value in p.items()}


class Branches:
    """A student and a teacher of the same weights; the teacher has none of those in alone."""

    def __init__(self, start, norm_last_layer, alone=()):
        self.student = {name: value.clone().requires_grad_(not (norm_last_layer and name.endswith("weight_g"))) for name, value in start.items()}
        self.teacher = {name: value.clone() for name, value in start.items() if name not in alone}
        trained = {name: value for name, value in self.student.items() if value.requires_grad}
        self.optimizer = torch.optim.AdamW([
            {"params": [v for v in trained.values() if v.dim() > 1], "weight_decay": DECAY},
            {"params": [v for v in trained.values() if v.dim() == 1], "weight_decay": 0.0},
        ], lr=RATE)

    def update(self, loss, epoch):
        self.optimizer.zero_grad()
        loss.backward()
        if epoch < 1:
            for name, value in self.student.items():
                if "last_layer" in name:
                    value.grad = None
        self.optimizer.step()
        with torch.no_grad():
            for name in self.teacher:
                self.teacher[name] = TEACHER_MOMENTUM * self.teacher[name] + (1 - TEACHER_MOMENTUM) * self.student[name].detach()
