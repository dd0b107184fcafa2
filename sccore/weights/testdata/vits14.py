"""Golden features, and lengths of gradients, of the ViT-S/14 that tools/vits14.py writes, by transformers 5.24.0 and PyTorch 2.15.0.

    python vits14.py FOLDER     # writes vits14.json beside this script
"""
import json, os, re, sys
import numpy as np, torch
from transformers import Dinov2Model

model = Dinov2Model.from_pretrained(sys.argv[1]).eval()
out = {}
for height, width in ((112, 112), (70, 126)):
    pixels = np.sin(12.9898 * np.arange(height * width * 3) + 78.233).astype(np.float32).reshape(1, height, width, 3)
    with torch.no_grad():
        tokens = model(torch.from_numpy(pixels).permute(0, 3, 1, 2)).last_hidden_state[0].double()
    out[f'{height}x{width}'] = {'class': tokens[0].tolist(), 'first': tokens[1].tolist(), 'last': tokens[-1].tolist()}
for case in out.values():
    for name in case:
        case[name] = [round(x, 6) for x in case[name]]
model.double()
pixels = np.sin(12.9898 * np.arange(112 * 112 * 3) + 78.233).astype(np.float32).reshape(1, 112, 112, 3)
probe = np.sin(12.9898 * np.arange(64 * 384) + 2 * 78.233).astype(np.float32).reshape(64, 384)
tokens = model(torch.from_numpy(pixels).double().permute(0, 3, 1, 2)).last_hidden_state[0, 1:]
(tokens * torch.from_numpy(probe)).sum().backward()
# Lengths by timm's names, in which queries, keys and values are one. The mask token has no gradient.
names = {'embeddings.position_embeddings': 'pos_embed', 'embeddings.patch_embeddings.projection': 'patch_embed.proj', 'embeddings.': '', 'layernorm': 'norm',
         'encoder.layer': 'blocks', 'attention.o_proj': 'attn.proj', 'layer_scale1.lambda1': 'ls1.gamma', 'layer_scale2.lambda1': 'ls2.gamma'}
squares = {}
for name, parameter in model.named_parameters():
    if parameter.grad is not None:
        for theirs, ours in names.items():
            name = name.replace(theirs, ours)
        name = re.sub('attention.[qkv]_proj', 'attn.qkv', name)
        squares[name] = squares.get(name, 0) + parameter.grad.square().sum().item()
out['gradients'] = {name: float(f'{square**.5:.7g}') for name, square in squares.items()}
json.dump(out, open(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'vits14.json'), 'w'))
