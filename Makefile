# `make` lists what can be done. Each target sets .venv up first if it is missing or out of date.

.DEFAULT_GOAL := help
.PHONY: help run studio test test-all test-check docs docs-all docs-serve fuzz bench lint types words clean setup

# The first Python here that is new enough; `make PYTHON=...` names another.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && exit; done; echo python3)
BIN := .venv/bin

# What is announced, in English or, where the system speaks it, in Chinese.
LANGUAGE := $(if $(filter zh% ZH%,$(firstword $(QKV_LANG) $(LC_ALL) $(LC_MESSAGES) $(LANG))),zh,en)
RUN_en := looking into SmolLM2: where does "it" look?
RUN_zh := 看看 SmolLM2 的内部：“it” 在关注什么？
LIVE_en := make studio opens it live in the browser: type, switch heads off, generate, compare
LIVE_zh := make studio 会在浏览器里实时打开它：输入文字、关掉头、生成、比较
TEST_en := running the tests
TEST_zh := 正在运行测试
TEST_ALL_en := running all tests, slow ones too
TEST_ALL_zh := 正在运行全部测试，包括较慢的
BENCH_en := benchmark
BENCH_zh := 测速
FUZZ_en := trying $(N) damaged files; what fails is kept in out/fuzz
FUZZ_zh := 正在尝试 $(N) 个损坏的文件；出错的会保存在 out/fuzz
DOCS_en := building the book
DOCS_zh := 正在构建电子书
WORDS_en := looking for sentences that are new or gone
WORDS_zh := 正在查找新增和删去的句子
LINT_en := checking format, style and types
LINT_zh := 正在检查格式、风格和类型
TYPES_en := checking the types of the scripts
TYPES_zh := 正在检查脚本的类型
NO_NODE_en := The types of the scripts are checked by TypeScript, which needs Node: install nodejs and npm, then try again. Nothing else here needs them.
NO_NODE_zh := 脚本的类型由 TypeScript 检查，它需要 Node：请安装 nodejs 和 npm 后重试。这里的其他功能都不需要它们。

# `make test OPTIONS="-k page"` gives pytest more to go by. supervise.py ends whatever a test left running.
# One thread per test process: two processes with all threads each only get in each other's way.
# The oneDNN line keeps bf16 off AMX, which some virtual machines advertise and then refuse (SIGILL).
# Only the plugins named here: a .venv that shares torch with the system also sees the system's pytest plugins.
# Bytecode is written even where the system forbids it, as containers do: else every process compiles every test anew.
# `exec`: the supervisor ends with its parent, which must be make itself and not a shell that outlives it.
TEST := exec env OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 PYTHONDONTWRITEBYTECODE= \
	PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 $(BIN)/python tests/supervise.py \
	$(BIN)/python -m pytest -q -p xdist -p hypothesispytest -n 2 --durations 10 --durations-min 5

BOOK := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/python -m tools.book

help: ## list the targets | 列出所有目标
	@sed -n 's/^\([a-z-]*\):.*## \(.*\) | \(.*\)/  make \1\t$(if $(filter zh,$(LANGUAGE)),\3,\2)/p' $(MAKEFILE_LIST) | expand -t 18

run: setup ## look into a real model: which heads link "it" to "cat", and how | 看看真实的模型：哪些头把 it 和 cat 联系起来，怎样联系
	@echo '$(RUN_$(LANGUAGE))'
	@$(BIN)/qkv see "The cat sat on the mat because it was tired" --from it --to cat --yes \
		-o out/attention.html --png out/attention.png
	@echo '$(LIVE_$(LANGUAGE))'

studio: setup ## attention live in the browser, on this machine alone | 在浏览器里实时看注意力，只在本机
	@$(BIN)/qkv studio

test: setup ## run the tests and the examples in docstrings | 运行测试和文档字符串里的例子
	@echo "$(TEST_$(LANGUAGE))"
	@$(TEST) $(OPTIONS)

test-all: setup ## the same with the slow tests too | 同上，连同较慢的测试
	@echo "$(TEST_ALL_$(LANGUAGE))"
	@$(TEST) -m "" $(OPTIONS)

test-check: setup ## all that qkv check is tried on, strangers' files too | 检查器的全部测试，包括陌生人写的文件
	@echo "$(TEST_ALL_$(LANGUAGE))"
	@$(TEST) -m "" tests/doctor $(OPTIONS)

docs: setup ## build the book into site/: every number computed, every link tried | 构建电子书到 site/：每个数都现算，每个链接都检查
	@echo "$(DOCS_$(LANGUAGE))"
	@$(BOOK)

docs-all: setup ## the same after computing its slow parts anew (training, fetched models) | 同上，先把较慢的部分（训练、下载的模型）重新算一遍
	@echo "$(DOCS_$(LANGUAGE))"
	@$(BOOK) --slow

docs-serve: setup ## build the book and show it on this machine | 构建电子书并在本机查看
	@$(BOOK) --serve

N ?= 10000
fuzz: setup ## try damaged files of every kind: make fuzz N=10000 | 试各种损坏的文件：make fuzz N=10000
	@echo "$(FUZZ_$(LANGUAGE))"
	@OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz --n $(N)

# Files that begin with _ are helpers.
bench: setup ## measure speed against peers, one benchmark after another | 与同类工具比较速度，逐项测量
	@for file in benchmarks/[!_]*.py; do \
		echo "$(BENCH_$(LANGUAGE)) $$file"; \
		$(BIN)/python -m "benchmarks.$$(basename "$$file" .py)" || exit 1; \
	done

lint: setup ## check format, style and types | 检查格式、风格和类型
	@echo "$(LINT_$(LANGUAGE))"
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

# Pinned: a newer TypeScript may find more.
types: ## check the types of the scripts of page and studio (needs Node) | 检查页面和 studio 脚本的类型（需要 Node）
	@echo "$(TYPES_$(LANGUAGE))"
	@command -v npx >/dev/null || { echo "$(NO_NODE_$(LANGUAGE))"; exit 1; }
	@npx --yes --loglevel=error -p typescript@5.9.3 tsc -p src/qkv/web/jsconfig.json

words: setup ## bring the translations up to date with the sentences in the code | 让翻译跟上代码里的句子
	@echo "$(WORDS_$(LANGUAGE))"
	@$(BIN)/python tools/words.py; code=$$?; $(BIN)/python tools/make_architecture.py || code=1; \
		$(BIN)/python -m tools.book.results && exit $$code

clean: ## remove .venv, caches, out/ and site/ | 删除 .venv、缓存、out/ 和 site/
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis dist out site
	find src tests benchmarks examples tools -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

setup:
	@$(PYTHON) tools/setup.py --quiet
