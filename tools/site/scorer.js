// Results of the search: pages for users before those about the project, each with its section.
// SECTIONS is put before this file by tools/site/build.py: the section of each page.
var Scorer = {
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
  score: function (result) {
    const section = SECTIONS[result[0]] || "";
    // The text in parentheses after the title.
    result[3] = result[3] || section;
    return result[4] - (section === "About the project" ? 20 : 0);
  },
};
