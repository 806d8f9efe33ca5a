// The page as a browser shows it: driven in a headless Chromium where there is one. It makes no request, logs no error,
// wakes its figures, switches axes and units, sorts, filters, and says where numbers come from, with names that try to
// be markup.
#include <boost/test/unit_test.hpp>

#include "report/page/report.h"
#include "report/sample_results.h"
#include "support/files.h"
#include "support/process.h"
#include "support/temp_folder.h"

using namespace pe;
using namespace pe::report;

namespace {

std::optional<std::string> browser() {
  for (const char* name : {"chromium", "chromium-browser", "google-chrome"}) {
    if (support::find_program(name)) return name;
  }
  return std::nullopt;
}

struct HasBrowser {
  boost::test_tools::assertion_result operator()(boost::unit_test::test_unit_id) const {
    boost::test_tools::assertion_result result(browser() && support::find_program("gnuplot") &&
                                               support::find_program("rsvg-convert"));
    if (!result) result.message() << "chromium, gnuplot or rsvg-convert is not installed";
    return result;
  }
};

// Actions of a reader, written down on the page itself for --dump-dom to show.
constexpr const char* kReader = R"(<script>
(function () {
  var told = {errors: []};
  window.addEventListener('error', function (e) { told.errors.push(String(e.message)); });
  try {
    var wake = document.querySelector('figure:not(#figure-branches) button.wake:not(.scale)'), figure = wake.parentNode;
    wake.click();
    told.canvases = figure.querySelectorAll('canvas').length;
    var scale = figure.querySelector('button.scale'), before = scale.textContent;
    told.scaleShown = !scale.hidden;
    scale.click();
    told.scaleTurned = scale.textContent !== before && figure.querySelectorAll('canvas').length === told.canvases;
    var unit = figure.querySelector('select.unit');
    told.units = Array.prototype.map.call(unit.options, function (o) { return o.value; }).join(' ');
    function lastX() { return Math.max.apply(null, Chart.getChart(figure.querySelector('canvas')).data.datasets[0].data.map(function (p) { return p.x; })); }
    var tokens = lastX();
    unit.value = 'steps';
    unit.dispatchEvent(new Event('change'));
    told.unitTurned = Math.abs(lastX() - tokens / 2048) < 1e-6 * tokens;

    function box(axis, name) { return document.querySelector('.chips input[data-axis="' + axis + '"][value="' + name + '"]'); }
    function labels() { return Chart.getChart(figure.querySelector('canvas')).data.datasets.map(function (d) { return d.label; }); }
    told.chartHad = labels().indexOf('alibi') >= 0;
    box('encoding', 'alibi').click();
    var out = document.querySelectorAll('tr.out');
    told.chipHides = labels().indexOf('alibi') < 0 && out.length > 1 && Array.prototype.every.call(out, function (r) { return r.getAttribute('data-encoding') === 'alibi' && r.offsetHeight === 0; });
    box('encoding', 'alibi').click();
    told.chipShows = labels().indexOf('alibi') >= 0 && document.querySelectorAll('tr.out').length === 0;
    box('seed', '2').click();
    told.seedHides = Chart.getChart(figure.querySelector('canvas')).data.datasets.every(function (d) { return d.seed !== '2'; }) && document.querySelectorAll('tr.out[data-seed="2"]').length > 0;
    box('seed', '2').click();

    document.querySelector('#table-perplexity_length td[data-v]').click();
    var drawer = document.getElementById('drawer');
    told.drawerRuns = drawer.querySelectorAll('table')[0].rows.length === 4;
    told.drawerCommand = drawer.querySelector('pre').textContent;
    told.drawerDiffers = drawer.textContent.indexOf('model.encoding') > 0;
    document.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape'}));
    told.drawerShut = document.getElementById('drawer') === null;

    document.querySelector('#table-inventory td[data-v]').click();
    told.drawerOfOne = document.querySelector('#drawer table').rows.length === 2;
    document.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape'}));
    document.querySelector('#table-differences td[data-v]').click();
    told.drawerOfBoth = document.querySelector('#drawer table').rows.length === 7;
    document.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape'}));
    document.querySelector('#table-final_loss td[data-v]').click();
    told.drawerOfTrainings = document.getElementById('drawer').textContent.indexOf('Trainings behind it') > 0;
    document.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape'}));

    function press(key) { document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: key, bubbles: true})); }
    var line = document.querySelector('#table-perplexity_length tbody tr'), places = line.querySelectorAll('td[data-v]');
    line.cells[0].focus();
    press('ArrowRight');
    press('ArrowRight');
    told.arrowsMove = document.activeElement === places[1] && line.querySelectorAll('[tabindex="0"]').length === 1;
    press('Enter');
    told.enterOpens = document.getElementById('drawer').textContent.indexOf('In full: ' + places[1].getAttribute('data-v') + '.') > 0;
    press('Escape');
    told.focusBack = document.activeElement === places[1];
    press('Home');
    told.homeMoves = document.activeElement === line.cells[0];

    Array.prototype.forEach.call(document.querySelectorAll('button[aria-pressed=true]'), function (b) { if (b !== wake) b.click(); });
    wake.click();
    told.stillBack = figure.querySelectorAll('.panels svg').length > 0 && figure.querySelectorAll('canvas').length === 0;

    var table = document.querySelector('#table-perplexity_length table'), heads = table.tHead.rows[table.tHead.rows.length - 1].cells, column = heads.length - 1;
    function numbers() {
      return Array.prototype.map.call(table.tBodies[0].rows, function (r) { return r.cells[column].getAttribute('data-v'); })
        .filter(function (v) { return v !== null; }).map(Number);
    }
    heads[column].click();
    var up = numbers();
    told.ascending = up.length > 1 && up.every(function (v, i) { return i === 0 || up[i - 1] <= v; });
    heads[column].click();
    var down = numbers();
    told.descending = down.every(function (v, i) { return i === 0 || down[i - 1] >= v; });

    var field = document.querySelector('.filter input');
    field.value = 'alibi';
    field.dispatchEvent(new Event('input'));
    var rows = Array.prototype.slice.call(table.tBodies[0].rows);
    told.filtered = rows.filter(function (r) { return !r.hidden; }).length === 1 && rows.length > 1;
    field.value = '';
    field.dispatchEvent(new Event('input'));
    told.unfiltered = rows.every(function (r) { return !r.hidden; });
    told.hostile = typeof window.hostile === 'undefined';
    told.requests = performance.getEntriesByType('resource').length;
    function light(colour) {   // of 0 to 255
      var parts = colour.match(/\d+/g).map(Number);
      return 0.299 * parts[0] + 0.587 * parts[1] + 0.114 * parts[2];
    }
    var body = getComputedStyle(document.body), picture = document.querySelector('.panels svg');
    told.darkAsked = matchMedia('(prefers-color-scheme: dark)').matches;
    told.paper = light(body.backgroundColor) > 128 ? 'light' : 'dark';
    told.readable = Math.abs(light(body.color) - light(body.backgroundColor)) > 125;
    told.pictureFollows = (getComputedStyle(picture).filter.indexOf('invert') >= 0) === told.darkAsked && getComputedStyle(picture.querySelector('rect')).fill === 'none';
    told.wide = document.documentElement.scrollWidth > document.documentElement.clientWidth + 1;
  } catch (e) { told.errors.push(String(e)); }
  document.body.setAttribute('data-told', JSON.stringify(told));
})();
</script></body>)";

struct ViewChange {
  std::string dom, log;
};

struct Screen {
  int width;
  bool dark = false;
};

ViewChange show(const std::filesystem::path& folder, const Screen& screen) {
  const auto done = support::capture(
      {"timeout", "120", *browser(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
       "--enable-logging=stderr", "--user-data-dir=" + (folder / "profile").string(),
       "--window-size=" + std::to_string(screen.width) + ",900", screen.dark ? "--force-dark-mode" : "--no-first-run",
       "--dump-dom", "file://" + (folder / "driven.html").string()});
  return {done.out, done.err};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(report_page, *boost::unit_test::precondition(HasBrowser{}))

BOOST_AUTO_TEST_CASE(a_reader_wakes_sorts_and_filters_without_an_error_or_a_request) {
  const test::TempFolder folder;
  artifact::Workspace workspace = sample::write_inputs(
      folder.path(),
      {.encodings = {"none", "rope", "alibi"}, .seeds = {1, 2, 3}, .lengths = {128, 256, 512}, .configs = true});
  char digit = 'a';
  for (artifact::Input& input : workspace.inputs["scores"]) input.digest = std::string(64, digit++);
  ReportConfig config;
  config.title = "<script>window.hostile = 1</script> & \"quotes\"";
  write_report(config, workspace);
  std::string page = support::read_file(folder / "report" / "report.html");
  page.replace(page.rfind("</body>"), 7, kReader);
  support::write_file_atomically(folder / "driven.html", page, false);
  for (const Screen& screen : {Screen{1280}, Screen{500}, Screen{1280, true}}) {
    const ViewChange shown = show(folder.path(), screen);
    const std::string where = std::to_string(screen.width) + (screen.dark ? " dark" : "");
    const auto at = shown.dom.find("data-told=\"");
    BOOST_TEST_REQUIRE(at != std::string::npos, shown.log);
    const std::string told = shown.dom.substr(at, shown.dom.find('>', at) - at);
    for (const char* good :
         {"errors&quot;:[]",
          "scaleShown&quot;:true",
          "scaleTurned&quot;:true",
          "stillBack&quot;:true",
          "ascending&quot;:true",
          "descending&quot;:true",
          "units&quot;:&quot; steps flops&quot;",
          "unitTurned&quot;:true",
          "chartHad&quot;:true",
          "chipHides&quot;:true",
          "chipShows&quot;:true",
          "seedHides&quot;:true",
          "drawerRuns&quot;:true",
          "drawerCommand&quot;:&quot;pe-pipeline verify --rerun aaaaaaaaaaaa bbbbbbbbbbbb cccccccccccc&quot;",
          "drawerDiffers&quot;:true",
          "drawerShut&quot;:true",
          "drawerOfOne&quot;:true",
          "drawerOfBoth&quot;:true",
          "drawerOfTrainings&quot;:true",
          "arrowsMove&quot;:true",
          "enterOpens&quot;:true",
          "focusBack&quot;:true",
          "homeMoves&quot;:true",
          "filtered&quot;:true",
          "unfiltered&quot;:true",
          "hostile&quot;:true",
          "requests&quot;:0",
          "wide&quot;:false",
          "readable&quot;:true",
          "pictureFollows&quot;:true",
          screen.dark ? "paper&quot;:&quot;dark" : "paper&quot;:&quot;light"}) {
      BOOST_TEST(told.find(good) != std::string::npos, where << ": " << good << " is not in " << told);
    }
    BOOST_TEST(shown.log.find("CONSOLE") == std::string::npos, shown.log);
  }
}

BOOST_AUTO_TEST_SUITE_END()
