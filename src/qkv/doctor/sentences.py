"""What `qkv check` says, by key: mistakes by their id (name, `.does`, `.fix`, `.shows`), the evidence, remarks."""

from ..words import Message, _

SENTENCES = {
    "check.cannot.apart": _("{name} is no attention: no token's output depends on another token"),
    "check.cannot.build": _('could not build {name}: {reason}. Say how: --args "d_model=64, num_heads=8"'),
    "check.cannot.call": _(
        'could not call {name}: {reason} (line {line}). Say what its arguments are: --call "q=first, mask=second", or how it is built: --args "d_model=64, num_heads=8"'
    ),
    "check.cannot.forward": _("{name} has no forward method: there is nothing to call"),
    "check.cannot.names": _("--call names an argument that {name} does not have; it has: {reason}"),
    "check.folder": _("{file} is a folder: name one of its files, such as {inside}"),
    "check.folder.empty": _("{file} is a folder without a .py file or a notebook: name the file to check"),
    "check.framework": _("It is written for {package}; qkv checks PyTorch and NumPy code."),
    "check.how.built": _("built as {value}"),
    "check.how.called": _("called as {value}"),
    "check.how.checked": _("{n} checks"),
    "check.how.checked.some": _("{n} checks, {skipped} more do not apply"),
    "check.how.heads": _("{value} heads"),
    "check.how.heads.one": _("one head"),
    "check.how.mask": _("mask: {value}"),
    "check.how.tried": _("tried {value}"),
    "check.look.cache": _("its cache"),
    "check.look.inputs": _("whether every input counts"),
    "check.look.masks": _("its masks"),
    "check.look.memory": _("attention to a memory"),
    "check.look.numbers": _("the numbers, one by one"),
    "check.look.probes": _("the probes that change one thing at a time"),
    "check.look.wiring": _("residuals and norms"),
    "check.name": _("{file} has no {name}; it has {there}"),
    "check.name.near": _("{file} has no {name}; did you mean {near}? (it has {there})"),
    "check.package": _(
        "It needs the package {package}, which is not installed here. Install it ({command}) and check again."
    ),
    "check.partly": _(
        "{target} is right as far as checked: no mistake found (checks: {probes}), but not all could be done"
    ),
    "check.phase.check": _("running"),
    "check.phase.load": _("loading"),
    "check.phase.start": _("starting"),
    "check.probe.batch": _("texts beside each other in a batch"),
    "check.probe.cache": _("its cache, one token at a time"),
    "check.probe.cache in pieces": _("its cache, several tokens at a time"),
    "check.probe.constant values": _("values that are all alike"),
    "check.probe.cost": _("what it costs"),
    "check.probe.dropout": _("dropout"),
    "check.probe.every input counts": _("whether every input counts"),
    "check.probe.every weight counts": _("whether every weight counts"),
    "check.probe.gradient": _("the gradient"),
    "check.probe.growth": _("inputs twice as large"),
    "check.probe.half": _("half precision"),
    "check.probe.inputs untouched": _("whether inputs stay as they are"),
    "check.probe.inventory": _("which projections it has"),
    "check.probe.large": _("large scores"),
    "check.probe.layers of their own": _("whether layers have weights of their own"),
    "check.probe.lengths": _("other lengths"),
    "check.probe.masks together": _("two masks at once"),
    "check.probe.numbers": _("the numbers, one by one"),
    "check.probe.order": _("shuffled tokens"),
    "check.probe.other keys": _("keys of another number than queries"),
    "check.probe.registered": _("whether all its weights are registered"),
    "check.probe.repeat": _("the same call twice"),
    "check.probe.rotary": _("rotary positions"),
    "check.probe.second call": _("a second call with another width"),
    "check.probe.training": _("training mode"),
    "check.probe.who sees whom": _("who sees whom"),
    "check.probe.window": _("the width of the window"),
    "check.right": _("{target} is right: no mistake found (checks: {probes})"),
    "check.right.plain": _("{target} is right"),
    "check.suspect": _("{target} probably has a mistake"),
    "check.suspect.many": _("{target} probably has {n} mistakes"),
    "check.unknown": _("{target} could not be checked"),
    "check.wrong": _("{target} has a mistake"),
    "check.wrong.many": _("{target} has {n} mistakes"),
    "evidence.C1": _("changing `{parameter}` changes nothing in the output: the encoder is never looked at"),
    "evidence.C2": _(
        "`{parameter}` does nothing; `{other}`, the target's own mask, hides the memory in its place, so padded memory changes the output (by {change:.1%})"
    ),
    "evidence.C3": _("{n} queries with {n} keys run, {n} queries with {m} keys don't: {error}"),
    "evidence.C4": _("the target's mask compares with the source's padding id"),
    "evidence.C5": _("the output follows the memory's length ({m}), not the query's ({n}): the roles are swapped"),
    "evidence.H1": _(
        "heads are cut by view/reshape alone, so a head holds parts of several tokens: your numbers equal attention computed so to {error:.0e}"
    ),
    "evidence.H10": _("`{name}` holds one and the same layer {times} times: all of them share their weights"),
    "evidence.H11": _(
        "the heads are combined by their {how} instead of side by side: your numbers equal attention computed so to {error:.0e}"
    ),
    "evidence.H2": _(
        "heads are put together without transposing first, so a token's output holds parts of other tokens: your numbers equal attention computed so to {error:.0e}"
    ),
    "evidence.H3": _(
        "batch and heads are mixed up: your numbers equal attention computed so to {error:.0e}; a text's output depends on the texts beside it"
    ),
    "evidence.H4": _(
        "asked for {heads} heads, computed as one head of width {width}: your numbers equal attention computed so to {error:.0e}"
    ),
    "evidence.H6": _("all {heads} heads share one {head}×{head} matrix: {shared} weights where {right} belong"),
    "evidence.H7": _(
        "the fused projection is {cut} (in heads), and q, k, v begin at {right}: your numbers equal attention computed so to {error:.0e}"
    ),
    "evidence.H7.crash": _("with fewer key heads than query heads it stops: {error}"),
    "evidence.H8": _(
        "query heads look at the wrong shared key heads (tiled 0,1,0,1 instead of 0,0,1,1): your numbers equal attention computed so to {error:.0e}"
    ),
    "evidence.H9": _(
        "a token sees the same place of other texts and nothing of its own: attention runs over the first axis, the batch"
    ),
    "evidence.K1": _(
        "token by token through the cache differs from all at once by {change:.1%}, from token {place} on: the position of later tokens is wrong"
    ),
    "evidence.K2": _(
        "after a prefix in the cache, several tokens at once differ from the whole by {change:.1%}: they see only the first keys, the triangle stands at the upper left"
    ),
    "evidence.K3": _(
        "several tokens at once with a cache differ from the whole by {change:.1%}: within the piece, tokens see what comes after them"
    ),
    "evidence.K4": _(
        "beyond the window, token by token differs from the whole by {change:.1%}: slots are overwritten before they are used"
    ),
    "evidence.K5": _("one token at a time through the cache differs from all at once by {change:.1%}"),
    "evidence.M1": _(
        "`{parameter}` keeps what it should block: your numbers equal attention computed so to {error:.0e} with the mask the other way round"
    ),
    "evidence.M1.made": _(
        "`{maker}` (line {at}) gives {shown}: {sign} means {means}. This code takes the {sign} in `{parameter}` for the opposite, and looks at just what should be hidden"
    ),
    "evidence.M1.reversed": _(
        "`{maker}` (line {at}) gives {shown}: added to the scores, it hides what may be seen and shows what may not"
    ),
    "evidence.M1.said": _("`{parameter}` was said to mark what to {said}, and the code takes it the other way round"),
    "evidence.M1.triangle": _("a token sees only tokens after itself: the causal mask is the wrong way round"),
    "evidence.M11": _(
        "`{parameter}` blocks the rows of padded queries instead of the columns of padded keys: your numbers equal attention computed so to {error:.0e}"
    ),
    "evidence.M12.ahead": _("a token sees the one after itself: the triangle's diagonal is off by one"),
    "evidence.M12.nan": _("rows {rows} are NaN: these tokens may look at nothing"),
    "evidence.M12.strict": _(
        "a token doesn't see itself: the triangle leaves out the diagonal, and the first token sees nothing"
    ),
    "evidence.M12.transposed": _(
        "a token sees itself and what comes after it, and nothing before: the triangle is upside down"
    ),
    "evidence.M14": _("every token sees all tokens after itself: there is no causal mask"),
    "evidence.M15": _(
        "`{parameter}` is repeated over the heads in the wrong order, so texts get each other's masks: your numbers equal attention computed so to {error:.0e}"
    ),
    "evidence.M16": _("`{parameter}` lands on the wrong axis: {error}"),
    "evidence.M17": _("every mask given as `{parameter}` stops it: {error}"),
    "evidence.M17.without": _("without a mask it stops, with one it runs: {error}"),
    "evidence.M19": _(
        "with large scores, masked keys change the output by {change:.1%}: the fill value isn't low enough"
    ),
    "evidence.M2": _("`{parameter}` changes nothing: the masked scores are computed and thrown away"),
    "evidence.M2.causal": _("every token sees all tokens after itself: the masked scores are computed and thrown away"),
    "evidence.M20": _("{worked} tokens run, {n} don't: {error}"),
    "evidence.M21": _("asked for a window of {asked}, a token sees {seen} tokens"),
    "evidence.M3": _(
        "`{parameter}` changes nothing, in any of {tried} shapes and types that were tried: it never reaches the softmax"
    ),
    "evidence.M5": _(
        "given `{parameter}`, masked keys are still seen: the causal mask takes its place, your numbers equal attention computed so to {error:.0e}"
    ),
    "evidence.M5.two": _(
        "given with `{other}`, `{parameter}` no longer hides anything: your numbers equal attention computed so to {error:.0e} with `{other}` alone"
    ),
    "evidence.M6": _(
        "given `{parameter}`, tokens see what comes after them: the causal mask is dropped, your numbers equal attention computed so to {error:.0e}"
    ),
    "evidence.M7": _(
        "`{parameter}` is added to the scores as 0 and 1: your numbers equal attention computed so to {error:.0e}; masked keys keep their weight"
    ),
    "evidence.M7.causal": _(
        "the causal mask is added to the scores as 0 and 1: your numbers equal attention computed so to {error:.0e}; tokens see what comes after them"
    ),
    "evidence.M7.made": _(
        "`{maker}` (line {at}) gives {shown}, and this code adds `{parameter}` to the scores: 1 more or less hides nothing"
    ),
    "evidence.M7.said": _(
        "`{parameter}` is made of true and false, and is added to the scores: 1 more or less hides nothing"
    ),
    "evidence.M8": _(
        "masked scores become 0, and e⁰ = 1 is a weight like any other: your numbers equal attention computed so to {error:.0e}"
    ),
    "evidence.M8.causal": _(
        "scores of later tokens become 0, and e⁰ = 1 is a weight like any other: your numbers equal attention computed so to {error:.0e}"
    ),
    "evidence.M9": _(
        "masked scores are filled with a number close to 0, and e⁰ = 1: your numbers equal attention computed so to {error:.0e}"
    ),
    "evidence.M9.causal": _(
        "scores of later tokens are filled with a number close to 0, and e⁰ = 1: your numbers equal attention computed so to {error:.0e}"
    ),
    "evidence.N1": _("in half precision it stops: {error}"),
    "evidence.N2": _("with gradients on it stops: {error}"),
    "evidence.N3": _("`{parameter}` is another tensor after the call than before: it is changed in place"),
    "evidence.P1": _("`{unused}` gets no gradient: it is never used; the projections that ran are {used}"),
    "evidence.P2": _("changing `{parameter}` changes nothing in the output: it is computed from another input"),
    "evidence.P3": _("{missing} missing: the inputs themselves take their place, number for number"),
    "evidence.P4": _("the {heads} heads' outputs are put side by side and handed back: no weight comes after them"),
    "evidence.R1": _("the table differs from sin and cos of position / 10000^(2i/d) by up to {change:.2g}; {why}"),
    "evidence.R3": _(
        "all tokens of a text get the same code, and texts different ones: the table is read by the batch's index"
    ),
    "evidence.R4": _(
        "turned queries and keys should depend on the distance alone, but differ by {change:.1%} at the same distance: the angles are laid out for another pairing of channels than the turn uses"
    ),
    "evidence.R4.numbers": _(
        "the rotary angles are laid out for another pairing of channels than the turn uses: your numbers equal attention computed so to {error:.0e}"
    ),
    "evidence.R5": _(
        "the numbers are those of attention without positions: q and k are turned alike at every place, by another axis than the tokens'"
    ),
    "evidence.R5.same": _("every token of a text is turned alike: the turn follows another axis than the tokens'"),
    "evidence.R6": _(
        "q and k are turned over the whole width, before the heads are cut: your numbers equal attention computed so to {error:.0e}"
    ),
    "evidence.R7": _("the slopes are {found}, and should be {right}"),
    "evidence.R7.numbers": _(
        "the slopes of ALiBi are off ({how}); head h of {heads} has 2^(−8(h+1)/{heads}): your numbers equal attention computed so to {error:.0e}"
    ),
    "evidence.S1": _(
        "your scores are multiplied by {used} = {value} instead of divided by √{head} = {root}: your numbers equal attention computed so to {error:.0e}"
    ),
    "evidence.S2": _(
        "your scores are not scaled: your numbers equal attention computed so to {error:.0e}; d_k is {head}, so they should be divided by √{head} = {root}"
    ),
    "evidence.S3": _(
        "you divide by √{width} = {wide}: your numbers equal attention computed so to {error:.0e}; d_k is {head}, so it should be √{head} = {root}"
    ),
    "evidence.S4": _(
        "your scores are multiplied by {used}: your numbers equal attention computed so to {error:.0e}; d_k is {head}, so it should be 1/√{head} = {right}"
    ),
    "evidence.S4.size": _(
        "your scores are multiplied by {used}, which is {size}: your numbers equal attention computed so to {error:.0e}; d_k is {head}, so it should be 1/√{head} = {right}"
    ),
    "evidence.S6": _(
        "the softmax comes first and its result is divided by {used} = {value}: your numbers equal attention computed so to {error:.0e}; the weights of a row sum to {sum}, not 1"
    ),
    "evidence.S7": _("a single text of shape (n, d) runs, a batch (B, n, d) does not: {error}"),
    "evidence.S8": _(
        "called with width {first}, then with {second}, it gives other numbers (by {change:.1%}) than when called with {second} at once: the scale of the first call is kept"
    ),
    "evidence.T1": _("a {kind} with weights is made anew inside the call: no optimizer ever sees it"),
    "evidence.T1.random": _(
        "a {kind} with random weights is made anew inside the call: two calls in eval mode give different numbers"
    ),
    "evidence.T2": _(
        "{count} layers stand in a plain list: their {missed} weights are not among parameters() ({known} are)"
    ),
    "evidence.T2.tensor": _(
        "{names}: plain tensors, not nn.Parameter; parameters() has {known} numbers and these are not among them"
    ),
    "evidence.T3": _("in eval mode two equal calls differ by {change:.1%}: dropout with p = {p} is still at work"),
    "evidence.T3.random": _("in eval mode two equal calls differ by {change:.1%}: something random is still at work"),
    "evidence.T5": _(
        "the residual adds the normed input instead of the input: the output is norm(x) + …, number for number"
    ),
    "evidence.T6": _("the output is {found}, and should be {right}"),
    "evidence.T6.unused": _("`{unused}` gets no gradient: that norm is never used"),
    "evidence.T8": _("attention gets norm(x) as its query but x itself as key and value"),
    "evidence.W1": _("it stops: {error}"),
    "evidence.X1": _(
        "the softmax runs over the queries: your numbers equal attention computed so to {error:.0e}; each column of your weights sums to 1, the rows don't"
    ),
    "evidence.X2": _(
        "the softmax runs over the batch: your numbers equal attention computed so to {error:.0e}; one text's weights depend on the texts beside it"
    ),
    "evidence.X3": _("the softmax runs over {axis}: your numbers equal attention computed so to {error:.0e}"),
    "evidence.X5": _(
        "with inputs 300 times as large, {bad:.0f} % of the output is NaN or infinite: e to a large number overflows"
    ),
    "evidence.X6": _(
        "the raw scores are used as weights: your numbers equal attention computed so to {error:.0e}; the softmax has no effect"
    ),
    "evidence.X6.growth": _(
        "twice the input gives {growth:.1f} times the output: weights that sum to 1 give at most twice"
    ),
    "evidence.X7": _(
        "the mask given as `{parameter}` is applied after the softmax: your numbers equal attention computed so to {error:.0e}; the rows no longer sum to 1"
    ),
    "evidence.X7.causal": _(
        "the causal mask is applied after the softmax: your numbers equal attention computed so to {error:.0e}; the first row sums to less than 1, and later tokens still shift the weights"
    ),
    "evidence.X8": _(
        "in training mode {part:.0f} % of the output is NaN: dropout before the softmax multiplies −inf by 0"
    ),
    "evidence.X8.before": _(
        "in training mode the softmax takes scores that a dropout with p = {p} has been at: dropped scores become 0, and e⁰ = 1 is a weight"
    ),
    "evidence.across": _(
        "a text computed alone and in a batch differ by {change:.1%}: its output depends on the texts beside it"
    ),
    "evidence.causal.unwanted": _("tokens don't see what comes after them, though this was said not to be causal"),
    "evidence.mask.leak": _(
        "in no shape and type that was tried does `{parameter}` hide the keys it should: changing them changes the output"
    ),
    "evidence.mask.nan": _(
        "with `{parameter}` given, the output has NaN in every shape and type of mask that was tried"
    ),
    "evidence.nan": _("{part:.0f} % of the rows are NaN, from finite numbers and without a mask handed over"),
    "evidence.order": _(
        "shuffled tokens should give shuffled outputs, but they differ by {change:.1%}; copies of one token give outputs that differ by {spread:.1%}: numbers of different tokens are mixed where heads are cut or put together"
    ),
    "evidence.rows": _(
        "values that are all alike come out multiplied by {low} to {high}: the weights of a row don't sum to 1"
    ),
    "evidence.scores.axis": _("the shares of the softmax add up to 1 along another axis than the keys: {axis}"),
    "evidence.scores.scale": _(
        "what goes into the softmax is q·k times {scale}; q and k are {head} wide, so it should be 1/√{head} = {right}"
    ),
    "mistake.C1": _("cross-attention does not look at the encoder"),
    "mistake.C1.does": _(
        "The decoder is a plain language model: it trains, and its translations have nothing to do with the source."
    ),
    "mistake.C1.fix": _(
        "Queries from the decoder, keys and values from the encoder: `self.cross_attn(x, memory, memory, memory_mask)`"
    ),
    "mistake.C1.shows": _("Changing the encoder's output changes nothing."),
    "mistake.C2": _("the target's mask is used on the source"),
    "mistake.C2.does": _(
        "Padding of the source is attended to, or source words are hidden by a causal mask meant for the target; if lengths differ, it crashes."
    ),
    "mistake.C2.fix": _(
        "Cross-attention's keys are the source, so its mask is the source's padding: `self.cross_attn(x, memory, memory, src_mask)`"
    ),
    "mistake.C2.shows": _(
        "Source and target of different lengths, the source padded: changing its padding changes the output, or the call raises."
    ),
    "mistake.C3": _("keys and values are reshaped with the queries' length"),
    "mistake.C3.does": _(
        "Self-attention works; cross-attention crashes as soon as the two texts have different lengths, and with a cache at the second token."
    ),
    "mistake.C3.fix": _("Take each length from its own tensor: `k = k.view(B, k.size(1), H, d)`, or let −1 find it"),
    "mistake.C3.shows": _("Called with 5 queries and 7 keys it raises; with equal lengths it doesn't."),
    "mistake.C4": _("the source's padding id is used for the target"),
    "mistake.C4.does": _(
        "If the two vocabularies number padding differently, target padding is attended to and a real word is hidden instead. If the numbers are equal, nothing shows until the tokenizer changes."
    ),
    "mistake.C4.fix": _("Each its own: `trg_mask = (trg != self.trg_pad_idx)`"),
    "mistake.C4.shows": _(
        "A whole model with two different padding ids: tokens of the target that are padding change the output."
    ),
    "mistake.C5": _("queries and keys/values change places in cross-attention"),
    "mistake.C5.does": _(
        "The encoder asks and the decoder answers: the output has the source's length and is made of the target's own values. With equal lengths nothing complains."
    ),
    "mistake.C5.fix": _("The one that wants to know asks: `self.cross_attn(query=x, key=memory, value=memory)`"),
    "mistake.C5.shows": _(
        "With 5 target and 7 source tokens the output has 7 rows; or output i depends on all target tokens and on one source token only."
    ),
    "mistake.E1": _("right, and slower than it needs to be"),
    "mistake.E1.does": _(
        "A causal mask built in every call costs n² numbers each time; a Python loop over heads runs H small products one after another where one large one would do."
    ),
    "mistake.E1.fix": _(
        "`self.register_buffer('mask', torch.tril(torch.ones(n, n)).bool(), persistent=False)` in `__init__`; heads as an axis: `view(B, n, H, d).transpose(1, 2)`"
    ),
    "mistake.E1.shows": _("Found in the source. This is a remark, not a fault."),
    "mistake.H1": _("heads are cut across tokens instead of channels"),
    "mistake.H1.does": _(
        "In memory a token's channels lie together, so `view(B, H, n, d)` gives each head all the channels of a few neighbouring tokens instead of some channels of all. Far tokens never meet, and a causal mask no longer hides the future. It trains."
    ),
    "mistake.H1.fix": _("Split the last axis, then move the heads: `x.view(B, n, H, d).transpose(1, 2)`"),
    "mistake.H1.shows": _(
        "Shuffling the tokens does not just shuffle the output, and a text of one repeated token gives other outputs than that token alone."
    ),
    "mistake.H10": _("the same layer is used N times"),
    "mistake.H10.does": _(
        "`[layer] * N` repeats a reference: N layers with one set of weights, so the model is N times smaller than it looks."
    ),
    "mistake.H10.fix": _(
        "Make each anew: `nn.ModuleList([Layer(d) for _ in range(N)])`, or `copy.deepcopy(layer)` for each"
    ),
    "mistake.H10.shows": _("Counting parameters: entries of the list are one and the same object."),
    "mistake.H11": _("heads are averaged or added instead of concatenated"),
    "mistake.H11.does": _(
        "The output projection can't tell heads apart: it treats all alike, and what one head found is blurred with the others."
    ),
    "mistake.H11.fix": _(
        "Put them side by side: `torch.cat(heads, dim=-1)`, or `out.transpose(1, 2).reshape(B, n, H * d)`"
    ),
    "mistake.H11.shows": _(
        "The output equals the mean (or sum) of the heads put through the output projection, to rounding."
    ),
    "mistake.H2": _("heads are merged without moving their axis back"),
    "mistake.H2.does": _(
        "Each output row is stitched together from one head's results for several tokens, later ones included, so even a causal model sees the future."
    ),
    "mistake.H2.fix": _("Swap first: `out.transpose(1, 2).reshape(B, n, H * d)`"),
    "mistake.H2.shows": _(
        "Shuffling the tokens does not just shuffle the output; the output equals heads merged in memory order to rounding."
    ),
    "mistake.H3": _("batch and heads are mixed up"),
    "mistake.H3.does": _(
        "Samples exchange information: an answer depends on its neighbours in the batch, and other batch sizes give other answers or a crash."
    ),
    "mistake.H3.fix": _(
        "Keep the batch axis first and untouched: `x.view(B, n, H, d).transpose(1, 2)` gives (B, H, n, d)"
    ),
    "mistake.H3.shows": _("The first sample alone gives another output than the first sample in a batch."),
    "mistake.H4": _("heads are never split"),
    "mistake.H4.does": _(
        "It is one head as wide as the model, whatever the number of heads says: a token can look at one pattern of places per layer, not H."
    ),
    "mistake.H4.fix": _(
        "Split q, k and v before the product: `q = q.view(B, n, H, d).transpose(1, 2)`, and merge after"
    ),
    "mistake.H4.shows": _("The output equals attention with one head to rounding, though more heads were asked for."),
    "mistake.H6": _("heads share one small projection"),
    "mistake.H6.does": _(
        "Split before projecting, each head sees only its own slice of the channels through one d_k × d_k matrix that all share: H² times fewer weights for q, k and v, and heads that can't specialise."
    ),
    "mistake.H6.fix": _(
        "Project the whole width, then split: `nn.Linear(d_model, d_model)` for each of q, k, v, then `view(B, n, H, d)`"
    ),
    "mistake.H6.shows": _(
        "The projections have the shape d_k × d_k, and the output equals attention with one such matrix for every head."
    ),
    "mistake.H7": _("the fused q, k, v projection is cut in the wrong places"),
    "mistake.H7.does": _(
        "Parts of one serve as another: with fewer KV heads three equal pieces are not q, k and v. From scratch it may train; with weights from elsewhere it computes nonsense."
    ),
    "mistake.H7.fix": _(
        "Cut by width: `q, k, v = qkv.split([H * d, G * d, G * d], dim=-1)`, and reshape in the order the weights were made in"
    ),
    "mistake.H7.shows": _(
        "The output matches attention with the rows of that weight in another order than the class says."
    ),
    "mistake.H8": _("shared key/value heads are repeated in the wrong order"),
    "mistake.H8.does": _(
        "Query head h reads KV head h mod G instead of h // (H/G). Trained from scratch that is only another numbering; weights of LLaMA, Qwen or Mistral, or a second path that repeats the usual way, give nonsense."
    ),
    "mistake.H8.fix": _(
        "Repeat each head in place: `k.repeat_interleave(H // G, dim=1)`, or `enable_gqa=True` in scaled_dot_product_attention"
    ),
    "mistake.H8.shows": _(
        "Each KV head's values are set to a constant of their own; which constants a query head returns shows which one it reads."
    ),
    "mistake.H9": _("attention runs across the batch instead of the sequence"),
    "mistake.H9.does": _(
        "Tokens at the same place of different texts attend to each other, and tokens of one text never meet. Shapes fit, so nothing complains."
    ),
    "mistake.H9.fix": _(
        "Say which axis is the batch: `nn.MultiheadAttention(d, h, batch_first=True)`, or transpose to (n, B, d) before and back after"
    ),
    "mistake.H9.shows": _(
        "Changing another sample changes this one's output; changing another token of the same sample does not."
    ),
    "mistake.K1": _("new tokens' positions ignore what the cache holds"),
    "mistake.K1.does": _(
        "Each new token is turned as if the text began with it (or as if only the kept rows existed): distances to cached keys are wrong, and the text falls apart after a while."
    ),
    "mistake.K1.fix": _("Count from the tokens seen so far, not from rows kept: `pos = torch.arange(seen, seen + n)`"),
    "mistake.K1.shows": _("Token by token with the cache gives other outputs than the whole text at once."),
    "mistake.K2": _("with a cache, the causal mask starts at the wrong corner"),
    "mistake.K2.does": _(
        "`is_causal=True` aligns at the top left: with 1 new query and 10 keys the query sees the first key only."
    ),
    "mistake.K2.fix": _(
        "Align at the bottom right: query i of n sees keys up to i + m − n; `torch.ones(n, m, dtype=torch.bool).tril(m - n)`. One new token needs no mask"
    ),
    "mistake.K2.shows": _("Right for a whole text, wrong with a cache: new tokens have no gradient from recent keys."),
    "mistake.K3": _("several tokens with a cache, and no causal mask among them"),
    "mistake.K3.does": _(
        "Tokens of one chunk see those after them: one token at a time is right, but prompts read in chunks leak, and give other states than in training."
    ),
    "mistake.K3.fix": _(
        "Mask the chunk too: `torch.ones(n, m, dtype=torch.bool).tril(m - n)` for n new tokens and m keys in all"
    ),
    "mistake.K3.shows": _("One-token steps agree with the whole text, chunks of three do not."),
    "mistake.K4": _("the rolling cache overwrites keys that are still needed"),
    "mistake.K4.does": _(
        "A chunk writes its keys over those its first tokens should still see, so they see later tokens instead of earlier ones."
    ),
    "mistake.K4.fix": _("Attend first, write after; or keep window + chunk − 1 rows"),
    "mistake.K4.shows": _("Agrees with the whole text until the window is full, and not beyond."),
    "mistake.K5": _("the cache is off by one, or one-token steps take another path"),
    "mistake.K5.does": _(
        "A token too many or too few is kept, or a shortcut for one token turns only the first head: outputs drift from those of the whole text."
    ),
    "mistake.K5.fix": _(
        "Keep exactly the last W: `k = torch.cat([cache, k], dim=2)[:, :, -W:]`, and let one token take the same path as many"
    ),
    "mistake.K5.shows": _("One-token steps differ from the whole text, chunks may agree."),
    "mistake.M1": _("mask used the wrong way round"),
    "mistake.M1.does": _(
        "It attends exactly to what it should ignore: to padding only, or, with a causal mask, to the future only, and the rows left with nothing become NaN or uniform."
    ),
    "mistake.M1.fix": _(
        "Where True or 1 means “may look”, hide the zeros: `scores.masked_fill(mask == 0, float('-inf'))`; where True means “hide”, `scores.masked_fill(mask, float('-inf'))`"
    ),
    "mistake.M1.shows": _("Changing tokens that the mask hides changes the output, changing those it keeps does not."),
    "mistake.M11": _("padding mask laid over queries instead of keys"),
    "mistake.M11.does": _(
        "Rows of padding tokens are blanked, which nobody reads anyway, while every real token goes on attending to padding; with −inf the blanked rows are NaN."
    ),
    "mistake.M11.fix": _(
        "Scores are (B, H, queries, keys): put padding on the last axis, `mask[:, None, None, :]` or `mask.unsqueeze(1).unsqueeze(2)`"
    ),
    "mistake.M11.shows": _(
        "Padded on the left and on the right, with other lengths per sample: changing padding changes the real tokens' output."
    ),
    "mistake.M12": _("the causal triangle is off by one or transposed"),
    "mistake.M12.does": _(
        "One diagonal too many shows each token the very next one it has to predict; one too few hides it from itself and leaves the first row nothing; transposed, tokens see only the future."
    ),
    "mistake.M12.fix": _(
        "Token i sees 0 … i: `keep = torch.tril(torch.ones(n, n)).bool()`, or the opposite, `hide = torch.triu(torch.ones(n, n), diagonal=1).bool()`"
    ),
    "mistake.M12.shows": _(
        "Which outputs have a gradient from which inputs: the triangle of those pairs is shifted, or the upper one."
    ),
    "mistake.M14": _("no causal mask"),
    "mistake.M14.does": _(
        "Every token sees those after it, so the answer is in the input: the training loss collapses, and generation, where there is nothing after, is poor."
    ),
    "mistake.M14.fix": _(
        "Hide what comes after: `scores.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), float('-inf'))`, or `is_causal=True` in scaled_dot_product_attention"
    ),
    "mistake.M14.shows": _("It is meant to be causal, and early outputs have a gradient from later inputs."),
    "mistake.M15": _("mask repeated in another order than the heads"),
    "mistake.M15.does": _(
        "Rows of a (B·H) batch run sample 0 with all its heads, then sample 1; `mask.repeat(H, 1, 1)` runs sample 0, 1, …, 0, 1, … So most heads get another sample's mask. A batch of one hides it."
    ),
    "mistake.M15.fix": _(
        "Repeat each sample's mask H times in a row: `mask.repeat_interleave(H, dim=0)`; or keep the heads on an axis of their own and broadcast"
    ),
    "mistake.M15.shows": _(
        "Samples of different lengths: each, cut to its length and alone, gives another output than in the padded batch; a batch of one agrees."
    ),
    "mistake.M16": _("the mask's axes fall on the wrong axes of the scores"),
    "mistake.M16.does": _(
        "Broadcasting aligns from the right: a mask (B, n, n) against scores (B, H, n, n) puts samples where heads are. It crashes, unless B is 1 or equals H, and then each head gets a sample's mask."
    ),
    "mistake.M16.fix": _(
        "Give the mask an axis for the heads: `mask[:, None]` for (B, n, n), `mask[:, None, None, :]` for (B, n)"
    ),
    "mistake.M16.shows": _(
        "With batch, heads and length all different it crashes or hides other keys than the mask says."
    ),
    "mistake.M17": _("one branch of the mask code is broken"),
    "mistake.M17.does": _(
        "It runs only with a mask, or only without one, so it breaks on the day the other case comes."
    ),
    "mistake.M17.fix": _("Ask `if mask is not None:` before touching it, and spell it `masked_fill`"),
    "mistake.M17.shows": _("Called with a mask and with None: one of the two raises."),
    "mistake.M18": _("what a row with no key left gives"),
    "mistake.M18.does": _(
        "Filled with −inf such a row is 0/0 = NaN, and in training that NaN reaches every weight; with −1e9 it is the average of the hidden values; scaled_dot_product_attention gives 0."
    ),
    "mistake.M18.fix": _(
        "Decide it: `weights = weights.masked_fill(~mask.any(-1, keepdim=True), 0.0)` after the softmax gives 0 (for a mask with True = may look); for training, fill with a finite number first"
    ),
    "mistake.M18.shows": _(
        "One row is masked completely; reported is whether it gives NaN, 0 or an average. This is a remark, not a fault."
    ),
    "mistake.M19": _("masked scores are filled with a number that is not low enough"),
    "mistake.M19.does": _(
        "A fill of −1000 hides only while the row's other scores stay well above it: once activations grow, hidden keys get weight again, and nothing tells you."
    ),
    "mistake.M19.fix": _("`float('-inf')` or `torch.finfo(scores.dtype).min`"),
    "mistake.M19.shows": _(
        "Right for ordinary inputs; with inputs many times larger, changing hidden keys changes the output."
    ),
    "mistake.M2": _("the result of `masked_fill` is thrown away"),
    "mistake.M2.does": _(
        "`masked_fill` returns a new tensor and leaves the old one as it was: nothing is hidden, silently."
    ),
    "mistake.M2.fix": _("Assign it: `scores = scores.masked_fill(mask == 0, float('-inf'))`"),
    "mistake.M2.shows": _("The output with a mask and without is the same to the last bit."),
    "mistake.M20": _("works for one sequence length only"),
    "mistake.M20.does": _(
        "A mask or reshape of fixed size crashes on shorter or longer texts, as in the last batch or when generating."
    ),
    "mistake.M20.fix": _(
        "Cut the mask to the scores, `mask[:n, :n]`, and take lengths from the tensors: `n = x.size(1)`"
    ),
    "mistake.M20.shows": _("Called with lengths 1, 3 and 7: some raise."),
    "mistake.M21": _("the sliding window is off by one or on the wrong side"),
    "mistake.M21.does": _(
        "Each layer sees one token too few or too many, or the wrong side: the reach of a stack of layers and the cache's size no longer fit, nor do the weights of another implementation."
    ),
    "mistake.M21.fix": _(
        "A window of W tokens, itself included: `keep = (i - j >= 0) & (i - j < W)` with i the query, j the key"
    ),
    "mistake.M21.shows": _(
        "How many keys each output has a gradient from, and on which side, against the width that was asked for."
    ),
    "mistake.M3": _("the mask never reaches the softmax"),
    "mistake.M3.does": _(
        "A mask is accepted and ignored: padding is attended to and a causal model sees the future, with no error."
    ),
    "mistake.M3.fix": _("Pass it on, and give the masked scores to the softmax: `out = self.attention(q, k, v, mask)`"),
    "mistake.M3.shows": _("The output with a mask and without is the same to the last bit."),
    "mistake.M5": _("the second mask overwrites the first"),
    "mistake.M5.does": _(
        "Each mask works alone; given both, only one counts, so padding or the future leaks just when batches are padded."
    ),
    "mistake.M5.fix": _(
        "Combine them: with True = may look, `mask = causal & padding`; or hide twice, `scores = scores.masked_fill(~causal, float('-inf')).masked_fill(~padding, float('-inf'))`"
    ),
    "mistake.M5.shows": _(
        "Given both masks, changing what one of them hides changes the output; given that one alone it does not."
    ),
    "mistake.M6": _("causal mask lost when a padding mask is given"),
    "mistake.M6.does": _(
        "Padded batches train with the future in sight: the loss falls too low, and generation, where there is no future to look at, is poor."
    ),
    "mistake.M6.fix": _(
        "Apply the causal mask always and the padding mask as well: `mask = causal if padding is None else causal & padding`"
    ),
    "mistake.M6.shows": _("Causal without a padding mask; with one, an early output has a gradient from later tokens."),
    "mistake.M7": _("a True/False mask is added to the scores"),
    "mistake.M7.does": _(
        "Adding 1 multiplies a weight by e ≈ 2.7 before normalising, and adding 0 does nothing: no key is hidden."
    ),
    "mistake.M7.fix": _("Add −inf, not 1, or fill: `scores = scores.masked_fill(mask == 0, float('-inf'))`"),
    "mistake.M7.shows": _(
        "Changing hidden keys still changes the kept rows; the output equals attention with the mask added as 0 and 1."
    ),
    "mistake.M8": _("masked scores are set to 0 instead of −∞"),
    "mistake.M8.does": _(
        "A score of 0 is still a weight of e⁰ = 1 before normalising, more than any key with a negative score gets."
    ),
    "mistake.M8.fix": _("Fill with minus infinity: `scores = scores.masked_fill(mask == 0, float('-inf'))`"),
    "mistake.M8.shows": _(
        "Changing the values at hidden keys still changes the output; it equals attention with their scores set to 0."
    ),
    "mistake.M9": _("masked scores are filled with the wrong number"),
    "mistake.M9.does": _(
        "`-1e-9` and `1e-9` are practically 0, so hidden keys keep a weight of e⁰ before normalising; plus infinity makes the whole row NaN."
    ),
    "mistake.M9.fix": _(
        "Minus infinity, or the lowest number of the type: `float('-inf')` or `torch.finfo(scores.dtype).min`"
    ),
    "mistake.M9.shows": _(
        "Changing hidden keys still changes the kept rows, or masked rows are NaN though keys are left."
    ),
    "mistake.N1": _("the fill is too large for float16"),
    "mistake.N1.does": _(
        "float16 ends at 65504: `masked_fill(mask, -1e9)` raises RuntimeError in half precision, so it works on your CPU and fails on the GPU."
    ),
    "mistake.N1.fix": _("`float('-inf')` or `torch.finfo(scores.dtype).min`"),
    "mistake.N1.shows": _("Called in float16 with a mask: it raises, without one it doesn't."),
    "mistake.N2": _("scores are edited in place where autograd needs them"),
    "mistake.N2.does": _(
        "The forward pass works and `backward()` raises, or the values of a view change under another name."
    ),
    "mistake.N2.fix": _(
        "Make a new tensor: `scores = scores.masked_fill(mask == 0, float('-inf'))` instead of `masked_fill_` or `scores[...] = `"
    ),
    "mistake.N2.shows": _("A backward pass raises autograd's in-place error."),
    "mistake.N3": _("it changes what it was given"),
    "mistake.N3.does": _(
        "The caller's tensor is different after the call: a residual added afterwards uses the wrong x, and the second call gives another answer than the first."
    ),
    "mistake.N3.fix": _(
        "Write `x = x + y` instead of `x += y`, and methods without the underscore: `masked_fill`, `mul`, `add`"
    ),
    "mistake.N3.shows": _("The inputs, compared before and after the call, differ."),
    "mistake.P1": _("a projection is used for another's job"),
    "mistake.P1.does": _(
        "One projection does two jobs and another none: it gets no gradient and stays as random as it was made."
    ),
    "mistake.P1.fix": _("Each its own: `q = self.w_q(query)`, `k = self.w_k(key)`, `v = self.w_v(value)`"),
    "mistake.P1.shows": _(
        "After a backward pass a projection has no gradient, and the output equals attention with another in its place."
    ),
    "mistake.P2": _("q or v is made from the key"),
    "mistake.P2.does": _(
        "What was projected for q (or v) is thrown away. In self-attention nothing complains, but with q = k the scores are symmetric and every token looks mostly at itself."
    ),
    "mistake.P2.fix": _("Reshape each from itself: `q = q.view(...)`, `k = k.view(...)`, `v = v.view(...)`"),
    "mistake.P2.shows": _(
        "With different inputs for query, key and value, one of them has gradient 0 and so have its projection's weights."
    ),
    "mistake.P3": _("no projections for q, k, v"),
    "mistake.P3.does": _(
        "Scores are how alike two tokens are, symmetric and mostly highest with itself: there is nothing to learn about what should look at what."
    ),
    "mistake.P3.fix": _("`self.w_q = nn.Linear(d_model, d_model)` and the same for k and v; `q = self.w_q(x)`"),
    "mistake.P3.shows": _("The module has no such weights, and its output equals attention with q = k = v = x."),
    "mistake.P4": _("no output projection"),
    "mistake.P4.does": _(
        "What a head found stays in its own slice of the channels: heads are never mixed inside the layer, and one matrix of the layer is missing."
    ),
    "mistake.P4.fix": _("`self.w_o = nn.Linear(H * d, d_model)` and `return self.w_o(out)`"),
    "mistake.P4.shows": _("There are several heads and no weight after them, or one that gets no gradient."),
    "mistake.R1": _("the sine and cosine table has the wrong frequencies"),
    "mistake.R1.does": _(
        "Pairs whose sine and cosine run at different speeds no longer turn with the position, so a shift is not a rotation; frequencies that fall too fast leave most channels constant."
    ),
    "mistake.R1.fix": _(
        "Channels 2i and 2i+1 share one frequency: `freq = 10000 ** (-torch.arange(0, d_model, 2) / d_model)`; `pe[:, 0::2] = torch.sin(pos * freq)`; `pe[:, 1::2] = torch.cos(pos * freq)`"
    ),
    "mistake.R1.shows": _("The table is compared with the formula, and in each pair sin² + cos² must be 1."),
    "mistake.R3": _("positions are counted along the batch"),
    "mistake.R3.does": _(
        "All tokens of a text get the same position code, that of their sample's place in the batch: word order is invisible, and it depends on the batch."
    ),
    "mistake.R3.fix": _("Batch first means length is axis 1: `x + self.pe[:, :x.size(1)]`"),
    "mistake.R3.shows": _(
        "Two equal tokens at different places get the same code, or the same sample another code at another place in the batch."
    ),
    "mistake.R4": _("rotary table and rotation pair channels differently"),
    "mistake.R4.does": _(
        "The two numbers of a pair are turned by different angles, which is no rotation: lengths change, and q·k depends on where the two tokens stand, not only on how far apart they are."
    ),
    "mistake.R4.fix": _(
        "Halves go with halves: `emb = torch.cat((freqs, freqs), dim=-1)` with rotate_half; neighbours with neighbours: `freqs.repeat_interleave(2, dim=-1)` with `x[..., ::2]`, `x[..., 1::2]`"
    ),
    "mistake.R4.shows": _(
        "For the same distance, q·k differs between places, and the length of a turned vector isn't kept."
    ),
    "mistake.R5": _("rotary positions are counted along the heads"),
    "mistake.R5.does": _(
        "Within a head all tokens are turned by the same angle, which cancels in q·k: word order is invisible."
    ),
    "mistake.R5.fix": _(
        "Turn along the sequence axis: for (B, H, n, d) positions belong to axis 2, for (B, n, H, d) to axis 1"
    ),
    "mistake.R5.shows": _("Tokens at different places of a head are turned alike, and heads differently."),
    "mistake.R6": _("rotary positions are applied before the heads are split"),
    "mistake.R6.does": _(
        "The frequencies are spread over the whole width, so the first heads get only the fast ones and the last only the slow ones; with half-and-half pairs the two numbers of a pair even land in different heads."
    ),
    "mistake.R6.fix": _(
        "Split first, then turn each head with a table of its own width: `q = rope(q.view(B, n, H, d).transpose(1, 2))`"
    ),
    "mistake.R6.shows": _(
        "The output equals attention with the rotation over the whole width; within single heads q·k does not depend on distance as it should."
    ),
    "mistake.R7": _("ALiBi's slopes are off by one"),
    "mistake.R7.does": _(
        "Slopes should begin at 2^(−8/H); begun at 1, every head forgets distance faster than the models whose weights you may load."
    ),
    "mistake.R7.fix": _("`slopes = 2 ** (-8 * (torch.arange(H) + 1) / H)`"),
    "mistake.R7.shows": _("Regressing the bias on the distance, per head, gives 2^(−8h/H) with h counted from 0."),
    "mistake.S1": _("multiplied by √(head width) instead of divided"),
    "mistake.S1.does": _(
        "Scores come out d_k times too large (64 times at d_k = 64), so almost all weight falls on one key from the first step and hardly any gradient passes the softmax. W_q can shrink to undo it, so training limps instead of failing."
    ),
    "mistake.S1.fix": _(
        "`d_k ** -0.5` is already 1/√d_k: multiply by it, or divide by `d_k ** 0.5`. `scores = q @ k.transpose(-2, -1) * d_k ** -0.5`"
    ),
    "mistake.S1.shows": _(
        "Your output equals attention with scores q·k × √d_k to rounding. A bare f(q, k, v) is called with V = I, which reads the weights: their logarithms rise with q·k at slope √d_k instead of 1/√d_k."
    ),
    "mistake.S2": _("scores not scaled"),
    "mistake.S2.does": _(
        "With q and k of variance 1 the scores have standard deviation √d_k (8 at d_k = 64): of 64 random keys one takes 79 % of the weight on average, where scaled scores give it 11 %. The softmax saturates and its gradient shrinks, the more the wider the head."
    ),
    "mistake.S2.fix": _("Divide the scores before the softmax: `scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)`"),
    "mistake.S2.shows": _(
        "Your output equals attention with bare q·k to rounding; often a `self.scale` is made and never read."
    ),
    "mistake.S3": _("scaled by √(model width) instead of √(head width)"),
    "mistake.S3.does": _(
        "With H heads the scores are √H times too small (2.8 times with 8 heads), so every head looks around more evenly than it should, and W_q and W_k must grow to make up for it. Weights moved to or from a correct implementation give other outputs."
    ),
    "mistake.S3.fix": _(
        "The sum in q·k runs over one head's channels, so scale by their number: `d_k = d_model // n_heads` and `scores / math.sqrt(d_k)`"
    ),
    "mistake.S3.shows": _(
        "Your output equals attention scaled by 1/√(heads × d_k) to rounding, with d_k read from the shapes of the weights."
    ),
    "mistake.S4": _("scaled by a size that is not the head width"),
    "mistake.S4.does": _(
        "With the sequence length under the root, the same tokens get a sharper or flatter softmax as soon as the text is longer or shorter; with the number of heads it is a constant wrong factor. Either way the scores no longer have variance near 1."
    ),
    "mistake.S4.fix": _(
        "Take the width of the queries, not another axis: `d_k = q.size(-1)` and `scores / math.sqrt(d_k)`"
    ),
    "mistake.S4.shows": _(
        "V = I reads the weights at two lengths: the factor on q·k changes with the length, or equals 1/√(number of heads)."
    ),
    "mistake.S6": _("scaled after the softmax instead of before"),
    "mistake.S6.does": _(
        "The softmax sees unscaled scores and saturates, and then each row of weights adds up to 1/√d_k instead of 1: the output is √d_k times too small."
    ),
    "mistake.S6.fix": _("Scale inside the softmax: `torch.softmax(scores / math.sqrt(d_k), dim=-1)`"),
    "mistake.S6.shows": _(
        "With all value rows equal, the output must be that row; yours is 1/√d_k of it. A module's output equals softmax(q·k)/√d_k · V to rounding."
    ),
    "mistake.S7": _("`.T` reverses all axes, not just the last two"),
    "mistake.S7.does": _(
        "On (batch, length, width), `k.T` is (width, length, batch). The product crashes, or, where the sizes happen to be equal, silently mixes samples."
    ),
    "mistake.S7.fix": _("Swap the last two axes only: `k.transpose(-2, -1)` in PyTorch, `k.swapaxes(-2, -1)` in NumPy"),
    "mistake.S7.shows": _(
        "Called with batch, length and width all different, it crashes or gives another shape; the same samples one by one work."
    ),
    "mistake.S8": _("the scale of the first call is kept for all later ones"),
    "mistake.S8.does": _(
        "The first width that comes along fixes √d_k; every later call with another width is scaled wrongly, and the result depends on the order of calls."
    ),
    "mistake.S8.fix": _("Compute it from what was passed, every time: `scale = q.size(-1) ** -0.5`"),
    "mistake.S8.shows": _(
        "Called with one width and then with another, the second answer is right only in a fresh copy."
    ),
    "mistake.T1": _("a layer is made anew in every call"),
    "mistake.T1.does": _(
        "The optimizer never sees its weights, so it is never trained and isn't saved. A Linear is random again at each call; a LayerNorm looks fine, because gain 1 and bias 0 are what it starts from, and just never learns."
    ),
    "mistake.T1.fix": _("Make it once in `__init__`: `self.norm = nn.LayerNorm(d_model)`, and call `self.norm(x)`"),
    "mistake.T1.shows": _(
        "A module with weights runs that is not among the model's modules; with a Linear two equal calls differ."
    ),
    "mistake.T2": _("weights that the module does not know of"),
    "mistake.T2.does": _(
        "Plain tensors and modules in a Python list are not parameters: they are not trained, saved, or moved to the GPU."
    ),
    "mistake.T2.fix": _("`self.w = nn.Parameter(torch.randn(d, d) * d ** -0.5)`, `self.heads = nn.ModuleList([...])`"),
    "mistake.T2.shows": _(
        "Modules run that are not in `modules()`, or there are fewer parameters than the computation uses."
    ),
    "mistake.T3": _("dropout is active in eval mode"),
    "mistake.T3.does": _(
        "Answers are noisy: the same input gives another output each time, and evaluation is worse than the model. `F.dropout` and scaled_dot_product_attention's `dropout_p` don't know of `eval()`."
    ),
    "mistake.T3.fix": _(
        "`F.dropout(x, p, training=self.training)`, `dropout_p=self.p if self.training else 0.0`, or `nn.Dropout(p)`"
    ),
    "mistake.T3.shows": _("After `eval()`, two equal calls differ."),
    "mistake.T5": _("the residual starts from the normalised x"),
    "mistake.T5.does": _(
        "The straight path through the network, which pre-norm exists for, is gone: each block passes on a normalised copy, and deep stacks train worse."
    ),
    "mistake.T5.fix": _("Normalise only what the sublayer reads: `x = x + self.attn(self.norm1(x))`"),
    "mistake.T5.shows": _(
        "Adding a constant to all channels of a token must add it to a pre-norm block's output; here it vanishes."
    ),
    "mistake.T6": _("residuals or norms are wired wrongly"),
    "mistake.T6.does": _(
        "A sublayer is skipped, counted twice or left without its residual, or a norm never gets a gradient: the block trains, as a weaker one than it was written to be."
    ),
    "mistake.T6.fix": _(
        "Pre-norm: `x = x + self.attn(self.norm1(x))`, then `x = x + self.ff(self.norm2(x))`; post-norm: `x = self.norm1(x + self.attn(x))`, then `x = self.norm2(x + self.ff(x))`"
    ),
    "mistake.T6.shows": _(
        "A sublayer or norm gets no gradient, or the block's output equals that of another wiring to rounding."
    ),
    "mistake.T8": _("only the queries are normalised"),
    "mistake.T8.does": _(
        "Keys and values come from the raw residual stream, which grows from layer to layer: scores grow with it."
    ),
    "mistake.T8.fix": _("Normalise once, use it three times: `h = self.norm(x)`; `x = x + self.attn(h, h, h)`"),
    "mistake.T8.shows": _("The block's output equals one whose q alone comes from the normalised x, to rounding."),
    "mistake.W1": _("crashes"),
    "mistake.W1.does": _("With these inputs it raises instead of answering."),
    "mistake.W1.fix": _(
        'See the last line of the traceback; if your class needs other arguments, pass them: `qkv check file.py:Name --args "dim=64"`'
    ),
    "mistake.W1.shows": _("The call raised; the error's own words are quoted."),
    "mistake.X1": _("softmax over the queries instead of the keys"),
    "mistake.X1.does": _(
        "Columns add up to 1, rows to anything: each key shares itself out among the queries. Under a causal mask every denominator also sums over later queries, so the future leaks; and with a single query, as when generating, every weight is 1."
    ),
    "mistake.X1.fix": _("Normalise along the last axis, the keys: `torch.softmax(scores, dim=-1)`"),
    "mistake.X1.shows": _(
        "With all value rows equal, the output is not that row. A module's output equals attention with softmax over the query axis to rounding."
    ),
    "mistake.X2": _("softmax over the batch"),
    "mistake.X2.does": _(
        "A sample's answer depends on which others are in its batch; alone, every weight is 1 and the output is the plain sum of all values. `nn.Softmax()` without `dim` takes axis 0 of a 3-D tensor."
    ),
    "mistake.X2.fix": _("Name the axis: `nn.Softmax(dim=-1)`, `torch.softmax(scores, dim=-1)`"),
    "mistake.X2.shows": _("The first sample alone gives another output than the first sample in a batch."),
    "mistake.X3": _("softmax over the heads instead of the keys"),
    "mistake.X3.does": _(
        "Heads compete with each other for every pair of tokens and rows no longer add up to 1; with one head every weight is 1. `nn.Softmax()` without `dim` takes axis 1 of a 4-D tensor, which is the heads."
    ),
    "mistake.X3.fix": _("Name the axis: `torch.softmax(scores, dim=-1)`"),
    "mistake.X3.shows": _(
        "With all value rows equal, the output is not that row; it equals attention with softmax over the heads (or heads and keys together) to rounding."
    ),
    "mistake.X5": _("exponential without subtracting the maximum"),
    "mistake.X5.does": _(
        "exp overflows to infinity above 88.7 in float32 and above 11.1 in float16, and infinity / infinity is NaN: the model dies the first time its scores grow."
    ),
    "mistake.X5.fix": _(
        "Subtract each row's maximum, which changes nothing else: `e = torch.exp(scores - scores.amax(dim=-1, keepdim=True))`, or call `torch.softmax`"
    ),
    "mistake.X5.shows": _(
        "Right for small inputs, NaN or infinity for inputs 300 times as large, where attention is finite."
    ),
    "mistake.X6": _("the softmax is computed and not used"),
    "mistake.X6.does": _(
        "Raw scores weight the values: they can be negative, don't add up to 1, and the output of self-attention grows with the cube of its input."
    ),
    "mistake.X6.fix": _(
        "Use what the softmax returns: `weights = torch.softmax(scores, dim=-1)` and then `weights @ v`"
    ),
    "mistake.X6.shows": _(
        "Inputs twice as large give outputs about 8 times as large; attention can at most about double."
    ),
    "mistake.X7": _("mask applied after the softmax"),
    "mistake.X7.does": _(
        "Hidden keys are still in the denominator: rows add up to less than 1, and a causal model still learns about the future through what is missing."
    ),
    "mistake.X7.fix": _(
        "Hide before the softmax: `scores = scores.masked_fill(mask == 0, float('-inf'))`, then `torch.softmax(scores, dim=-1)`"
    ),
    "mistake.X7.shows": _(
        "With all value rows equal and some keys hidden, the output is a fraction of that row; changing a hidden key changes the fraction."
    ),
    "mistake.X8": _("dropout on the scores, or on the weights that are returned"),
    "mistake.X8.does": _(
        "A dropped score becomes 0, which is not a dropped weight but e⁰ before normalising, and −inf × 0 is NaN under a mask. Weights returned after dropout don't add up to 1, so plots of them mislead."
    ),
    "mistake.X8.fix": _(
        "Drop weights, after the softmax, and return them from before: `weights = torch.softmax(scores, dim=-1)`; `output = self.dropout(weights) @ v`"
    ),
    "mistake.X8.shows": _(
        "In training mode the masked output has NaN, or the rows of the returned weights don't add up to 1 though in eval mode they do."
    ),
    "remark.E1.loop": _("a Python loop over the heads: right, but one product over all heads is faster"),
    "remark.E1.mask": _("the causal mask is built anew in every call: right, but a buffer made once is faster"),
    "remark.H8": _(
        "query heads share key heads 0, 1, 0, 1 …, this library's own convention; LLaMA's weights mean 0, 0, 1, 1 …"
    ),
    "remark.M1": _(
        "a comment says that True in `{parameter}` means {said}, and the code takes it for the opposite: one of the two is wrong"
    ),
    "remark.M18.nan": _(
        "a row that may look at nothing gives NaN (−inf everywhere); make sure that no text is all padding"
    ),
    "remark.M18.uniform": _("a row that may look at nothing looks at everything alike (a finite fill value)"),
    "remark.M18.zero": _("a row that may look at nothing gives 0"),
    "remark.N1": _(
        "its fill value does not fit into half precision: write torch.finfo(scores.dtype).min or -inf before training in float16"
    ),
    "remark.S2": _(
        "the scores are not scaled, but W_Q was drawn smaller by 1/√{head}: the scale is in the weights from the start"
    ),
    "remark.T5": _("the scores are not scaled: T5 is defined so, its weights are drawn for it"),
    "remark.X8": _(
        "in training mode the weights handed back are those after dropout (rows sum to {low:.2f} … {high:.2f}); read plots in eval mode"
    ),
    "remark.dropout": _("nn.Dropout() without a number drops half of everything ({names})"),
    "remark.scale": _("the scale is {scale}, not 1/√{head} = {right}; taken as meant so (1/d, learned or passed in)"),
    "unseen.cache": _("its cache: no way was found to hand it from one call to the next"),
    "unseen.cut": _("{what}: it is too large for that; make it smaller (--args), or in Python pass operations=…"),
    "unseen.mask": _(
        "what the mask {parameter} does: of the masks that were tried none hides what it should, and no known mistake gives these numbers; say what its True means with --mask-true-means"
    ),
    "unseen.mask.stopped": _(
        "what the mask {parameter} does: every mask that was tried stopped it, first with {error}"
    ),
    "unseen.meaning": _(
        "whether a True in {parameter} is meant to keep or to hide: a comment says one thing, the code does the other, and the file makes no such mask; say it with --mask-true-means"
    ),
    "unseen.meanings": _(
        "which mask reaches {parameter}: the file makes masks of two kinds; it is right with those of {one} (line {at}) and wrong with those of {other} (line {there})"
    ),
    "unseen.memory": _("attention to {parameter}: no {parameter} was found that it takes"),
    "unseen.memory.part": _("with a memory given: {what}"),
    "unseen.numbers": _(
        "the numbers, one by one: they are those of no known form of attention (something else happens to q, k or v)"
    ),
    "unseen.stopped": _("{what}: stopped with {error}"),
}

# The mistakes by what they are about, as docs/check.md lists them.
GROUPS = {
    _("Scores and their scale"): ["S1", "S2", "S3", "S4", "S6", "S7", "S8"],
    _("Softmax"): ["X1", "X2", "X3", "X5", "X6", "X7", "X8"],
    _("Masks"): [
        "M1",
        "M2",
        "M3",
        "M5",
        "M6",
        "M7",
        "M8",
        "M9",
        "M11",
        "M12",
        "M14",
        "M15",
        "M16",
        "M17",
        "M18",
        "M19",
        "M20",
        "M21",
    ],
    _("Heads"): ["H1", "H2", "H3", "H4", "H6", "H7", "H8", "H9", "H10", "H11"],
    _("Projections and cross-attention"): ["P1", "P2", "P3", "P4", "C1", "C2", "C3", "C4", "C5"],
    _("Positions"): ["R1", "R3", "R4", "R5", "R6", "R7"],
    _("Cache"): ["K1", "K2", "K3", "K4", "K5"],
    _("Numbers, modules, training"): ["N1", "N2", "N3", "T1", "T2", "T3", "T5", "T6", "T8", "E1", "W1"],
}


def sentence(key: str, **values: object) -> Message:
    """A sentence to be said later: who reads the report chooses the language."""
    return Message(SENTENCES[key], **values)
