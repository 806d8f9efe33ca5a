// pe-pipeline: makes what a pipeline file describes and the store does not have yet.
#include "commands/commands.h"

int main(int argc, char** argv) { return pe::commands::pipeline_main(argc, argv); }
