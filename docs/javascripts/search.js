// A message is pasted as it is, with options such as --log-dir: to the search engine a leading "-" would exclude the word.
document.addEventListener(
  "input",
  ({ target }) => {
    if (target.matches(".md-search__input")) {
      const words = target.value.replace(/(^|\s)[-+~^]+(?=\S)/g, "$1")
      if (words !== target.value) target.value = words
    }
  },
  { capture: true }
)
