# Writes types.gguf and types.json: a GGUF file by the gguf package (0.19), with random
# rows of every supported type, and their values as that package dequantises them.
#     python3 reference.py types.gguf types.json
import numpy as np, json, gguf, sys
from gguf.quants import quantize, dequantize
rng=np.random.default_rng(1)
T=gguf.GGMLQuantizationType
w=gguf.GGUFWriter(sys.argv[1],'llama')
w.add_uint32('llama.block_count',2); w.add_float32('llama.eps',1e-5); w.add_bool('flag',True); w.add_array('tokens',['a','ü','<|x|>']); w.add_int32('neg',-7); w.add_array('types',[1,2,3])
out={}
for name in ['F32','F16','BF16','Q8_0','Q4_0','Q4_1','Q5_0','Q5_1','Q4_K','Q5_K','Q6_K']:
    t=T[name]; 
    n=512
    if name=='F32': raw=rng.standard_normal((3,n)).astype(np.float32); data=raw
    elif name=='F16': data=rng.standard_normal((3,n)).astype(np.float16); data[0,:4]=[0,-0.0,6e-8,-65504]
    else:
        bs,ts=gguf.GGML_QUANT_SIZES[t]
        data=rng.integers(0,256,size=(3,n//bs*ts),dtype=np.uint8)
        # finite scales: f16 fields get exponent bits of small numbers
        b=data.reshape(-1,ts)
        def setf16(off):
            v=(rng.standard_normal(b.shape[0])*0.1).astype(np.float16).view(np.uint8).reshape(-1,2); b[:,off:off+2]=v
        for off in {'Q8_0':[0],'Q4_0':[0],'Q4_1':[0,2],'Q5_0':[0],'Q5_1':[0,2],'Q4_K':[0,2],'Q5_K':[0,2],'Q6_K':[208]}.get(name,[]): setf16(off)
        if name=='BF16': data=(rng.standard_normal((3,n)).astype(np.float32).view(np.uint32)>>16).astype(np.uint16).view(np.uint8)
    if name in('F32','F16'): w.add_tensor('t.'+name,data)
    else: w.add_tensor('t.'+name,data,raw_dtype=t)
    v=data.astype(np.float32) if name in('F32','F16') else dequantize(data,t).astype(np.float32)
    v=v.reshape(3,n)
    out[name]={'shape':[3,n],'sum':float(v.astype(np.float64).sum()),'values':[float(x) for x in v.reshape(-1)[::37]]}
w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()
json.dump(out,open(sys.argv[2],'w'))
