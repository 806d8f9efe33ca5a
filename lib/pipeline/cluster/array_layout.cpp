#include "pipeline/cluster/array_layout.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "support/text.h"

namespace pe::pipeline {

namespace {

using support::cat;

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
// An array for each different list of elements that tasks of one stage wait for; beyond these they wait for all.
constexpr std::size_t kMostLists = 16;
constexpr std::size_t kMostNamed = 2000;  // elements that one dependency names

struct Element {
  std::vector<std::size_t> tasks;
  std::set<std::size_t> parents;
  std::size_t array = kNone;
  std::int64_t index = 0;
  std::size_t level = 0;
  bool partial = false;  // its only task runs when some inputs failed
};

std::string text_of(const Resources& resources) {
  return cat(resources.name, " ", resources.cpus, " ", resources.mem_bytes, " ", resources.gpus, " ", resources.time_s);
}

class Grouper {
 public:
  Grouper(const Graph& graph, const std::vector<bool>& to_run, const Grouping& grouping)
      : graph_(graph), to_run_(to_run), grouping_(grouping), element_of_(graph.tasks.size(), kNone) {}

  std::vector<JobArray> group() {
    add_live();
    if (grouping_.mode == "lane")
      make_lanes();
    else
      make_packs();
    link();
    place();
    return std::move(arrays_);
  }

 private:
  const SlurmPolicy& policy(std::size_t task) const {
    static const SlurmPolicy none;
    const auto found = grouping_.policies.find(graph_.tasks[task].label);
    return found == grouping_.policies.end() ? none : found->second;
  }
  /// All that makes elements of one array the same for Slurm.
  std::string site(std::size_t task) const {
    return cat(policy(task).partition(graph_.tasks[task].resources.name), " ", to_json(policy(task)).dump());
  }
  bool wanted(std::size_t i) const { return to_run_[i] && !grouping_.live.count(i); }

  void add_live() {
    std::map<std::string, std::size_t> by_job;
    for (const auto& [task, live] : grouping_.live) {
      const auto [at, fresh] = by_job.try_emplace(live.job, arrays_.size());
      if (fresh) {
        arrays_.emplace_back();
        arrays_.back().label = graph_.tasks[task].label;
        arrays_.back().live_job = live.job;
      }
      JobArray& array = arrays_[at->second];
      auto& tasks = array.elements[live.index];
      if (tasks.empty()) {
        elements_.push_back({{}, {}, at->second, live.index, 0, false});
        element_of_[task] = elements_.size() - 1;
      } else {
        element_of_[task] = element_of_[tasks.front()];
      }
      tasks.push_back(task);
      elements_[element_of_[task]].tasks.push_back(task);
    }
    live_ = elements_.size();
  }

  /// Neighbours of one stage that ask for the same, up to `pack` of them in an element.
  void make_packs() {
    std::map<std::string, std::size_t> open;  // kind → element that may take more
    for (std::size_t i = 0; i < graph_.tasks.size(); ++i) {
      if (!wanted(i)) continue;
      const Task& task = graph_.tasks[i];
      const std::int64_t pack = task.allow_partial ? 1 : task.resources.pack;
      if (pack > 1) {
        std::string kind = cat(task.label, " ", text_of(task.resources));
        // The group has the same dependencies, so that no element waits for a producer that only one of its tasks
        // needs.
        for (const Edge& edge : task.inputs) {
          if (element_of_[edge.producer] != kNone && shared_producer(edge.producer)) kind += cat(" ", edge.producer);
        }
        const auto [at, fresh] = open.try_emplace(kind, kNone);
        if (!fresh && elements_[at->second].tasks.size() < static_cast<std::size_t>(pack)) {
          elements_[at->second].tasks.push_back(i);
          element_of_[i] = at->second;
          continue;
        }
        at->second = elements_.size();
      }
      element_of_[i] = elements_.size();
      elements_.push_back({{i}, {}, kNone, 0, 0, task.allow_partial});
    }
  }

  /// Whether many tasks read it: then it says nothing about which of them belong together.
  bool shared_producer(std::size_t producer) {
    if (readers_.empty()) {
      readers_.resize(graph_.tasks.size());
      for (const Task& task : graph_.tasks) {
        for (const Edge& edge : task.inputs) ++readers_[edge.producer];
      }
    }
    return readers_[producer] > 64;
  }

  /// Chains: a task joins the element of its producer, unless all tasks of its stage would then share one.
  void make_lanes() {
    std::vector<std::string> labels;
    std::map<std::string, std::vector<std::size_t>> tasks_of;
    for (std::size_t i = 0; i < graph_.tasks.size(); ++i) {
      if (!wanted(i)) continue;
      auto& list = tasks_of[graph_.tasks[i].label];
      if (list.empty()) labels.push_back(graph_.tasks[i].label);
      list.push_back(i);
    }
    std::vector<std::set<std::size_t>> above(elements_.size());  // of an element: all that it waits for
    for (const std::string& label : labels) {
      const auto& tasks = tasks_of[label];
      std::vector<std::size_t> home(tasks.size(), kNone);
      std::set<std::size_t> homes;
      for (std::size_t k = 0; k < tasks.size(); ++k) {
        home[k] = home_of(tasks[k], above);
        if (home[k] != kNone) homes.insert(home[k]);
      }
      const bool spread = homes.size() > 1 || tasks.size() == 1;
      for (std::size_t k = 0; k < tasks.size(); ++k) {
        const std::size_t i = tasks[k];
        if (home[k] != kNone && spread && home[k] >= live_ && site(i) == site(elements_[home[k]].tasks.front()) &&
            !graph_.tasks[i].allow_partial) {
          elements_[home[k]].tasks.push_back(i);
          element_of_[i] = home[k];
          continue;
        }
        std::set<std::size_t> waits;
        for (const Edge& edge : graph_.tasks[i].inputs) {
          const std::size_t parent = element_of_[edge.producer];
          if (parent == kNone) continue;
          waits.insert(parent);
          waits.insert(above[parent].begin(), above[parent].end());
        }
        element_of_[i] = elements_.size();
        elements_.push_back({{i}, {}, kNone, 0, 0, graph_.tasks[i].allow_partial});
        above.push_back(std::move(waits));
      }
    }
    for (Element& element : elements_) std::sort(element.tasks.begin(), element.tasks.end());
  }

  /// The one element that a task's inputs come from, others being what that one waits for anyway.
  std::size_t home_of(std::size_t i, const std::vector<std::set<std::size_t>>& above) const {
    std::set<std::size_t> parents;
    for (const Edge& edge : graph_.tasks[i].inputs) {
      if (element_of_[edge.producer] != kNone) parents.insert(element_of_[edge.producer]);
    }
    std::size_t home = kNone;
    for (const std::size_t one : parents) {
      const bool last = std::all_of(parents.begin(), parents.end(),
                                    [&](std::size_t other) { return other == one || above[one].count(other) > 0; });
      if (last) home = one;
    }
    return home;
  }

  void link() {
    // An element may take a task that reads from one made later, so levels settle only after all parents are known.
    for (std::size_t e = live_; e < elements_.size(); ++e) {
      for (const std::size_t i : elements_[e].tasks) {
        for (const Edge& edge : graph_.tasks[i].inputs) {
          const std::size_t parent = element_of_[edge.producer];
          if (parent != kNone && parent != e) elements_[e].parents.insert(parent);
        }
      }
    }
    std::vector<char> done(elements_.size(), 0);
    for (std::size_t e = live_; e < elements_.size(); ++e) level_of(e, done);
  }

  std::size_t level_of(std::size_t first, std::vector<char>& done) {
    // Without recursion: chains may be long.
    std::vector<std::size_t> stack{first};
    while (!stack.empty()) {
      const std::size_t e = stack.back();
      if (e < live_ || done[e]) {
        stack.pop_back();
        continue;
      }
      std::size_t level = 1;
      bool ready = true;
      for (const std::size_t parent : elements_[e].parents) {
        if (parent >= live_ && !done[parent]) {
          stack.push_back(parent);
          ready = false;
        }
        level = std::max(level, elements_[parent].level + 1);
      }
      if (!ready) continue;
      elements_[e].level = level;
      done[e] = 1;
      stack.pop_back();
    }
    return elements_[first].level;
  }

  /// When the tasks of an element run, in seconds after its start. Shares of a GPU run side by side, each as soon as
  /// another ends and its producers within the element have ended.
  struct Schedule {
    double end = 0;
    std::int64_t beside = 1;  ///< the largest number that runs concurrently
  };
  Schedule schedule_of(const Element& element, const std::vector<double>& times, double share) const {
    const bool shared = share > 0 && share < 1;
    std::vector<double> slots(shared ? std::max<std::size_t>(1, static_cast<std::size_t>(1 / share + 1e-9)) : 1, 0);
    std::map<std::size_t, std::pair<double, double>> spans;
    Schedule schedule;
    for (std::size_t k = 0; k < element.tasks.size(); ++k) {
      const auto slot = std::min_element(slots.begin(), slots.end());
      double start = *slot;
      for (const Edge& edge : graph_.tasks[element.tasks[k]].inputs) {
        if (const auto producer = spans.find(edge.producer); producer != spans.end())
          start = std::max(start, producer->second.second);
      }
      *slot = start + times[k];
      spans[element.tasks[k]] = {start, *slot};
      schedule.end = std::max(schedule.end, *slot);
    }
    for (const auto& [task, span] : spans) {
      const double at = span.first;
      const auto running = std::count_if(spans.begin(), spans.end(), [&](const auto& other) {
        return other.second.first <= at && at < other.second.second;
      });
      schedule.beside = std::max<std::int64_t>(schedule.beside, running);
    }
    return schedule;
  }

  Resources resources_of(const Element& element) const {
    Resources sum = graph_.tasks[element.tasks.front()].resources;
    std::vector<double> times;
    bool limited = true;
    for (const std::size_t i : element.tasks) {
      const Resources& one = graph_.tasks[i].resources;
      sum.cpus = std::max(sum.cpus, one.cpus);
      sum.mem_bytes = std::max(sum.mem_bytes, one.mem_bytes);
      sum.gpus = std::max(sum.gpus, one.gpus);
      const double time_s = one.time_s > 0 ? one.time_s : policy(i).time_s;
      limited = limited && time_s > 0;
      times.push_back(std::max(time_s, 1.0));
    }
    const Schedule schedule = schedule_of(element, times, sum.gpus);
    sum.time_s = limited ? std::ceil(schedule.end) : 0;
    sum.cpus *= schedule.beside;
    sum.mem_bytes *= schedule.beside;
    if (sum.gpus > 0 && sum.gpus < 1) sum.gpus = 1;
    return sum;
  }

  /// Into arrays, by levels: whom an element waits for has its place then.
  void place() {
    std::map<std::size_t, std::map<std::string, std::vector<std::size_t>>> by_level;
    for (std::size_t e = live_; e < elements_.size(); ++e) {
      std::string shape;
      std::string last;
      for (const std::size_t i : elements_[e].tasks) {
        if (graph_.tasks[i].label == last) continue;
        last = graph_.tasks[i].label;
        shape += last + " ";
      }
      const std::size_t front = elements_[e].tasks.front();
      shape += cat("| ", text_of(resources_of(elements_[e])), " | ", site(front));
      by_level[elements_[e].level][shape].push_back(e);
    }
    for (const auto& [level, shapes] : by_level) {
      // In the order of the graph, which people read.
      std::vector<const std::vector<std::size_t>*> order;
      for (const auto& [shape, elements] : shapes) order.push_back(&elements);
      std::sort(order.begin(), order.end(), [&](const auto* a, const auto* b) {
        return elements_[a->front()].tasks.front() < elements_[b->front()].tasks.front();
      });
      for (const auto* elements : order) place_alike(*elements);
    }
  }

  /// Dependencies of one element; aligned parents are separate.
  struct Wait {
    std::set<std::size_t> aligned;  // arrays, element of the own index
    std::map<std::size_t, std::vector<std::int64_t>> lists;
    std::set<std::size_t> whole;
    std::set<std::size_t> loose;  // whole, however it ended
    std::int64_t index = -1;
  };

  Wait wait_of(const Element& element, bool name_lists) const {
    Wait wait;
    std::map<std::size_t, std::vector<std::int64_t>> by_array;
    for (const std::size_t parent : element.parents)
      by_array[elements_[parent].array].push_back(elements_[parent].index);
    for (auto& [array, indices] : by_array) {
      std::sort(indices.begin(), indices.end());
      const std::size_t size = arrays_[array].elements.size();
      if (element.partial) {
        wait.loose.insert(array);
      } else if (indices.size() == 1 && size > 1 && (wait.index < 0 || wait.index == indices.front())) {
        wait.aligned.insert(array);
        wait.index = indices.front();
      } else if (indices.size() == size && arrays_[array].live_job.empty()) {
        wait.whole.insert(array);
      } else if (name_lists && indices.size() <= kMostNamed) {
        wait.lists[array] = indices;
      } else {
        wait.loose.insert(array);
      }
    }
    return wait;
  }

  static std::string key_of(const Wait& wait) {
    std::string text;
    for (const std::size_t array : wait.aligned) text += cat("c", array, " ");
    for (const std::size_t array : wait.whole) text += cat("w", array, " ");
    for (const std::size_t array : wait.loose) text += cat("l", array, " ");
    for (const auto& [array, indices] : wait.lists) {
      text += cat("n", array);
      for (const std::int64_t index : indices) text += cat(":", index);
      text += " ";
    }
    return text;
  }

  void place_alike(const std::vector<std::size_t>& elements) {
    std::set<std::string> lists;
    for (const std::size_t e : elements) {
      const Wait wait = wait_of(elements_[e], true);
      if (!wait.lists.empty()) lists.insert(key_of(wait));
    }
    const bool name_lists = lists.size() <= kMostLists;
    struct OpenArray {
      std::size_t array = kNone;
      std::int64_t next = 0;
    };
    std::map<std::string, std::vector<std::size_t>> corresponding;  // wait → arrays, one a fan
    std::map<std::string, OpenArray> open;
    for (const std::size_t e : elements) {
      Element& element = elements_[e];
      const Wait wait = wait_of(element, name_lists);
      const std::string text = key_of(wait);
      if (wait.index >= 0) {
        // Several that follow one element go to separate arrays.
        auto& fan = corresponding[text];
        const auto free = std::find_if(fan.begin(), fan.end(),
                                       [&](std::size_t array) { return !arrays_[array].elements.count(wait.index); });
        element.array = free != fan.end() ? *free : fan.emplace_back(new_array(element, wait));
        element.index = wait.index;
      } else {
        OpenArray& group = open[text];
        if (group.array == kNone || group.next >= grouping_.largest_array) group = {new_array(element, wait), 0};
        element.array = group.array;
        element.index = group.next++;
      }
      arrays_[element.array].elements[element.index] = element.tasks;
    }
  }

  std::size_t new_array(const Element& element, const Wait& wait) {
    JobArray array;
    array.label = graph_.tasks[element.tasks.front()].label;
    array.resources = resources_of(element);
    array.policy = policy(element.tasks.front());
    using Kind = ArrayNeed::Kind;
    for (const std::size_t parent : wait.aligned) array.needs.push_back({Kind::kAfterCorr, parent, {}});
    for (const std::size_t parent : wait.whole) array.needs.push_back({Kind::kAfterOk, parent, {}});
    for (const std::size_t parent : wait.loose) array.needs.push_back({Kind::kAfterAny, parent, {}});
    for (const auto& [parent, indices] : wait.lists) array.needs.push_back({Kind::kAfterOk, parent, indices});
    arrays_.push_back(std::move(array));
    return arrays_.size() - 1;
  }

  const Graph& graph_;
  const std::vector<bool>& to_run_;
  const Grouping& grouping_;
  std::vector<std::size_t> element_of_;  // by task
  std::vector<Element> elements_;
  std::vector<std::size_t> readers_;  // of each task, how many
  std::size_t live_ = 0;              // elements of arrays that are in the queue already
  std::vector<JobArray> arrays_;
};

}  // namespace

std::vector<JobArray> group(const Graph& graph, const std::vector<bool>& to_run, const Grouping& grouping) {
  return Grouper(graph, to_run, grouping).group();
}

std::string index_list(const std::map<std::int64_t, std::vector<std::size_t>>& elements) {
  std::string text;
  for (auto at = elements.begin(); at != elements.end();) {
    const std::int64_t first = at->first;
    std::int64_t last = first;
    for (++at; at != elements.end() && at->first == last + 1; ++at) ++last;
    text += cat(text.empty() ? "" : ",", first);
    if (last > first) text += cat("-", last);
  }
  return text;
}

}  // namespace pe::pipeline
