"""The style of an exported page: readable in light and dark, on small screens and on paper."""

STYLE = """\
:root { color-scheme: light dark; --back: #fff; --text: #1c1e21; --soft: #5d646d; --line: #d5d9de;
  --user: #eef3fb; --code: #f4f5f7; --link: #0b57b8; }
@media (prefers-color-scheme: dark) { :root { --back: #16181b; --text: #e4e6e9; --soft: #9aa2ab;
  --line: #363b41; --user: #1e2733; --code: #20242a; --link: #8ab8f5; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--text); font: 16px/1.55 system-ui, sans-serif; }
main { max-width: 52rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; line-height: 1.25; }
h2 { font-size: 1rem; margin: 2rem 0 .75rem; padding-top: .75rem; border-top: 1px solid var(--line); }
h2 time { color: var(--soft); font-weight: normal; }
h3 { font-size: .85rem; margin: 0 0 .35rem; color: var(--soft); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; margin: 0; font-size: .9rem; }
dt { color: var(--soft); } dd { margin: 0; }
article { margin: 0 0 .9rem; padding: .6rem .9rem; border: 1px solid var(--line); border-radius: .5rem; }
article.user { background: var(--user); }
article > :last-child { margin-bottom: 0; }
article h1, article h2 { font-size: 1.1rem; border: 0; padding: 0; margin: 1rem 0 .5rem; }
pre { background: var(--code); padding: .6rem .75rem; border-radius: .35rem; overflow-x: auto; }
pre, code { font: .85rem/1.45 ui-monospace, monospace; }
pre { white-space: pre-wrap; }
:not(pre) > code { background: var(--code); padding: .1em .3em; border-radius: .25em; }
details { margin: 0 0 .9rem; font-size: .9rem; } summary { cursor: pointer; color: var(--soft); }
blockquote { margin: .5rem 0; padding-left: .9rem; border-left: 3px solid var(--line); }
table { border-collapse: collapse; display: block; overflow-x: auto; }
th, td { border: 1px solid var(--line); padding: .25rem .6rem; text-align: start; }
img { max-width: 100%; height: auto; }
a { color: var(--link); }
.remark, .figures { color: var(--soft); font-size: .85rem; }
.remark p { margin: .25rem 0; }
"""
