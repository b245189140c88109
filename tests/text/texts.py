"""A thousand fixed texts in more than twenty scripts, on which tokenizers are compared."""

import random

SCRIPTS = {
    "Latin": "The cat sat on the mat because it was tired. L'été où Jürgen aß Müsli, señor Núñez! Æsop œuvre ĳs ẞ",
    "Vietnamese": "Tiếng Việt là ngôn ngữ của người Việt và là ngôn ngữ chính thức tại Việt Nam.",
    "Turkish": "İstanbul'da ılık bir öğleden sonra çay içtik; ığdır şehri güzeldir.",
    "simplified Chinese": "人工智能让机器理解语言。我喜欢玩人工智能！春眠不觉晓，处处闻啼鸟。「你好」……",
    "traditional Chinese": "臺灣的圖書館裡有許多關於語言學與電腦科學的書籍，歡迎蒞臨。龍龜鬱",
    "rare Chinese": "𠮷野家 𪚥 㐀䶵 囍 〇 々 〆",
    "Japanese": "吾輩は猫である。名前はまだ無い。カタカナとひらがな、ｶﾞｷﾞｸﾞ㍿",
    "Korean": "대한민국의 수도는 서울이다. 안녕하세요, 반갑습니다! \u1112\u1161\u11ab\u1100\u1173\u11af",
    "Arabic": "اللغة العربية هي أكثر اللغات السامية تحدثًا، ٣٤٥ ﷺ ﻻ",
    "Persian": "می‌خواهم به خانه بروم؛ ۱۲۳",
    "Hebrew": "בְּרֵאשִׁית בָּרָא אֱלֹהִים אֵת הַשָּׁמַיִם וְאֵת הָאָרֶץ. שלום עולם",
    "Devanagari": "हिन्दी विश्व की एक प्रमुख भाषा है। क्षत्रिय ज़िंदगी १२३",
    "Bengali": "বাংলা ভাষা একটি ইন্দো-আর্য ভাষা। ৪৫৬ ক্ষ",
    "Tamil": "தமிழ் மொழி உலகின் மிகப் பழமையான மொழிகளில் ஒன்று.",
    "Thai": "ภาษาไทยเป็นภาษาที่มีเสียงวรรณยุกต์ น้ำ ๑๒๓",
    "Khmer": "ភាសាខ្មែរ គឺជាភាសាផ្លូវការរបស់ប្រទេសកម្ពុជា។",
    "Tibetan": "བོད་སྐད་ནི་བོད་མིའི་སྐད་ཡིན།",
    "Cyrillic": "Москва — столица России. Съешь же ещё этих мягких французских булок. Їжак ґанок ӣ",
    "Greek": "Η Αθήνα είναι η πρωτεύουσα της Ελλάδας. ἐν ἀρχῇ ἦν ὁ λόγος, ΣΊΣΥΦΟΣ",
    "Georgian": "საქართველოს დედაქალაქი თბილისია. ᲡᲐᲥᲐᲠᲗᲕᲔᲚᲝ",
    "Armenian": "Երևանը Հայաստանի մայրաքաղաքն է։ եւ և",
    "Ethiopic": "አዲስ አበባ የኢትዮጵያ ዋና ከተማ ናት። ፩፪፫",
    "Cherokee": "ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ ꭰꭱꭲ",
    "emoji": "🙂👩‍💻👨‍👩‍👧‍👦🏳️‍🌈🇨🇳🇩🇪👍🏽❤️☕️ 1️⃣ ©®™",
    "code": "def f(x):\n    return {'a': [x**2 for x in range(10) if x != 3]}  # ok\n\tif (a && b) { c->d += 0x1F; }\n",
    "spaces": "  two  three   and\ttab\t\tthen\n\n\nlines\r\nend \u00a0no-break\u3000wide\u2003em\u200bzero \u2028",
    "combining": "e\u0301 n\u0303 a\u030a\u0301 Z̷͇̈a̶̜͝l̸̻̚g̵o \u1e9b\u0323 s\u0323\u0307 x\u0301\u0302\u0303",
    "numbers": "0 1 12 123 1234 12345 3.14159 1,000,000 −5 1e-10 ½ ² ₃ Ⅷ ①②③ 2026-11-15 12:30",
    "URLs": "https://example.org/a/b?c=d&e=%20f#g user.name+tag@example.com C:\\Users\\x ../../etc",
    "full-width": "ＡＢＣ１２３！？ｆｕｌｌ　ｗｉｄｔｈ～，。：；",
    "symbols": "≤ ≠ ∑∫√∞ ∂x/∂t → ⇒ ½ € £ ¥ ₿ ° § ¶ • … – — “quoted” ‘single’ ﬁ ﬂ ㎏ № ℃ Ａ",
    "controls": "a\u0000b\u0007c\u001bd\u007fe\u0085f\ufeffg\u200dh\u202ei\ufffdj\ufffek\ue000l",
    "names of tokens": "</s> <s> <unk> <pad> [CLS] [MASK] ## ##ing ▁ ▁the <0x41> <|im_end|> <|endoftext|> <extra_id_0>",
    "contractions": "it's IT'S we'll I'd've don't 'tis o'clock they're ’s",
    "repeats": "aaaaaaaa !!!!!!!!! ........ ------ ======== hahahaha 哈哈哈哈哈 1111111 \n\n\n\n\n\t\t\t\t          x",
}


def thousand_texts(n=1000, seed=0):
    """Each script whole, then cuts and mixtures of them at random places."""
    dice = random.Random(seed)
    every = list(SCRIPTS.values())
    texts = ["", " ", "\n", "a", *every]
    while len(texts) < n:
        parts = []
        for _ in range(dice.choice((1, 1, 2, 3))):
            text = dice.choice(every)
            first, last = sorted(dice.choices(range(len(text) + 1), k=2))
            parts.append(text[first:last])
        texts.append(dice.choice(("", " ", "  ", "\n")).join(parts) + dice.choice(("", "", "", " ", "\n")))
    return texts
