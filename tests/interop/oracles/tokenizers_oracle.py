"""Ids by the tokenizers package. `ids FILE` reads texts (JSON, standard input) and prints their ids; `train KIND FILE`
trains a byte-level BPE on standard input and writes its tokenizer.json. `pieces FILE...` reads texts and prints their
ids by each of these models of sentencepiece, and by its package."""
import json
import sys

if sys.argv[1] == "pieces":
    from sentencepiece import SentencePieceProcessor
    texts = json.load(sys.stdin)
    print(json.dumps([SentencePieceProcessor(model_file=path).encode(texts) for path in sys.argv[2:]]))
    sys.exit()

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")


def pre_tokenizer(kind):
    split = lambda pattern: pre_tokenizers.Split(Regex(pattern), "isolated")
    plain = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=kind in ("gpt2", "digits"))
    first = {"digits": pre_tokenizers.Digits(individual_digits=True), "llama3": split(LLAMA3), "qwen2": split(QWEN2)}
    return pre_tokenizers.Sequence([first[kind], plain]) if kind in first else plain


mode, *rest = sys.argv[1:]
if mode == "ids":
    tokenizer = Tokenizer.from_file(rest[0])
    texts = json.load(sys.stdin)
    encoded = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    print(json.dumps({"ids": encoded, "decoded": [tokenizer.decode(ids) for ids in encoded]}))
else:
    kind, path = rest
    tokenizer = Tokenizer(models.BPE(ignore_merges=kind == "llama3"))
    tokenizer.pre_tokenizer = pre_tokenizer(kind)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=700, special_tokens=["<|endoftext|>", "<|im_start|>"],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(json.load(sys.stdin), trainer)
    tokenizer.save(path)
